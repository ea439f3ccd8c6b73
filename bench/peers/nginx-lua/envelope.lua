-- The functions that the locations of nginx.conf call: admit, open, seal and count.
-- nginx runs one worker, so that the locals of this module are the whole state.
local bit = require 'bit'
local cjson = require 'cjson.safe'
local ffi = require 'ffi'

ffi.cdef [[
typedef struct evp_cipher_ctx_st EVP_CIPHER_CTX;
typedef struct evp_cipher_st EVP_CIPHER;
typedef struct engine_st ENGINE;
const EVP_CIPHER *EVP_aes_256_cbc(void);
EVP_CIPHER_CTX *EVP_CIPHER_CTX_new(void);
int EVP_DecryptInit_ex(EVP_CIPHER_CTX *, const EVP_CIPHER *, ENGINE *, const uint8_t *key, const uint8_t *iv);
int EVP_DecryptUpdate(EVP_CIPHER_CTX *, uint8_t *out, int *outl, const uint8_t *in, int inl);
int EVP_DecryptFinal_ex(EVP_CIPHER_CTX *, uint8_t *out, int *outl);
int EVP_EncryptInit_ex(EVP_CIPHER_CTX *, const EVP_CIPHER *, ENGINE *, const uint8_t *key, const uint8_t *iv);
int EVP_EncryptUpdate(EVP_CIPHER_CTX *, uint8_t *out, int *outl, const uint8_t *in, int inl);
int EVP_EncryptFinal_ex(EVP_CIPHER_CTX *, uint8_t *out, int *outl);

typedef struct { uint32_t opaque[32]; } SHA256_CTX;
int SHA256_Init(SHA256_CTX *);
int SHA256_Update(SHA256_CTX *, const void *, size_t);
int SHA256_Final(uint8_t *md, SHA256_CTX *);

uint8_t *ngx_hex_dump(uint8_t *dst, const uint8_t *src, size_t len);
]]

local C = ffi.C
local _M = {}

-- Buffers that grow to the size of the largest message. They are used only between two yields.
local buffers = {}
local function buffer(name, size)
  local held = buffers[name]
  if not held or held.size < size then
    held = { size = size * 2, bytes = ffi.new('uint8_t[?]', size * 2) }
    buffers[name] = held
  end
  return held.bytes
end

local not_hex = 255
local nibbles = ffi.new('uint8_t[256]')
ffi.fill(nibbles, 256, not_hex)
for value = 0, 15 do
  local digit = string.format('%x', value)
  nibbles[digit:byte()] = value
  nibbles[digit:upper():byte()] = value
end

-- Strict: accepts only an even number of hex digits.
local function from_hex(text)
  local length = #text / 2
  if #text % 2 ~= 0 then return nil end
  local bytes = buffer('ciphertext', length)
  local digits = ffi.cast('const uint8_t *', text)
  local seen = 0
  for i = 0, length - 1 do
    local high, low = nibbles[digits[2 * i]], nibbles[digits[2 * i + 1]]
    seen = bit.bor(seen, high, low)
    bytes[i] = bit.bor(bit.lshift(high, 4), low)
  end
  if seen > 15 then return nil end
  return bytes, length
end

local digest_state = ffi.new('SHA256_CTX')
local digest = ffi.new('uint8_t[32]')
local function sha256(text)
  C.SHA256_Init(digest_state)
  C.SHA256_Update(digest_state, text, #text)
  C.SHA256_Final(digest, digest_state)
  return ffi.string(digest, 32)
end

local out_length = ffi.new('int[1]')
local last_length = ffi.new('int[1]')

-- The key schedule is kept with the account; each message only sets a new IV.
local function decrypt(account, ciphertext, length)
  if length == 0 or length % 16 ~= 0 then return nil end
  local out = buffer('plaintext', length + 16)
  local context = account.decryption
  C.EVP_DecryptInit_ex(context, nil, nil, nil, account.iv)
  if C.EVP_DecryptUpdate(context, out, out_length, ciphertext, length) ~= 1 then return nil end
  if C.EVP_DecryptFinal_ex(context, out + out_length[0], last_length) ~= 1 then return nil end
  return ffi.string(out, out_length[0] + last_length[0])
end

local head, tail = '{"data":"', '"}'

local function seal(account, plaintext)
  local out = buffer('ciphertext', #plaintext + 16)
  local context = account.encryption
  C.EVP_EncryptInit_ex(context, nil, nil, nil, account.iv)
  C.EVP_EncryptUpdate(context, out, out_length, plaintext, #plaintext)
  C.EVP_EncryptFinal_ex(context, out + out_length[0], last_length)
  local length = out_length[0] + last_length[0]
  local envelope = buffer('envelope', #head + length * 2 + #tail)
  ffi.copy(envelope, head, #head)
  local digits_end = C.ngx_hex_dump(envelope + #head, out, length)
  ffi.copy(digits_end, tail, #tail)
  return ffi.string(envelope, #head + length * 2 + #tail)
end

local accounts = {}
local refusals

function _M.init(settings_file)
  local file = assert(io.open(settings_file))
  local settings = assert(cjson.decode(file:read('*a')))
  file:close()
  refusals = settings.refusals
  for hash, entry in pairs(settings.accounts) do
    local account = { id = entry.account }
    if entry.key then
      account.iv = entry.iv
      account.decryption = C.EVP_CIPHER_CTX_new()
      account.encryption = C.EVP_CIPHER_CTX_new()
      C.EVP_DecryptInit_ex(account.decryption, C.EVP_aes_256_cbc(), nil, entry.key, entry.iv)
      C.EVP_EncryptInit_ex(account.encryption, C.EVP_aes_256_cbc(), nil, entry.key, entry.iv)
    end
    local bytes = from_hex(hash)
    accounts[ffi.string(bytes, 32)] = account
  end
end

local function refuse(code)
  local refusal = refusals[code]
  ngx.status = refusal.status
  ngx.header.content_type = 'application/problem+json'
  ngx.header['Cache-Control'] = 'no-store'
  if refusal.status == 401 then ngx.header['WWW-Authenticate'] = 'Bearer' end
  local body = refusal.body[1] .. ngx.var.known_request_id .. refusal.body[2]
  ngx.header.content_length = #body
  ngx.print(body)
  return ngx.exit(refusal.status)
end

-- Access phase: finds the account of the API key.
function _M.admit()
  local authorization = ngx.var.http_authorization
  local account = authorization and authorization:sub(1, 7) == 'Bearer ' and accounts[sha256(authorization:sub(8))]
  if not account then return refuse('invalid_api_key') end
  ngx.var.account = account.id
  return account
end

-- Access phase: opens the envelope and puts its content in its place.
function _M.open()
  local account = _M.admit()
  if not account.iv then return end
  ngx.ctx.account = account
  ngx.req.read_body()
  local body = ngx.req.get_body_data()
  if not body then return end
  local envelope = cjson.decode(body)
  if type(envelope) ~= 'table' or type(envelope.data) ~= 'string' or next(envelope, next(envelope)) then
    return refuse('envelope_malformed')
  end
  local ciphertext, length = from_hex(envelope.data)
  local plaintext = ciphertext and decrypt(account, ciphertext, length)
  if not plaintext or cjson.decode(plaintext) == nil then return refuse('decryption_failed') end
  ngx.req.set_body_data(plaintext)
end

-- Header filter: the length of the response after the body filter.
function _M.announce()
  local context = ngx.ctx
  local length = tonumber(ngx.header.content_length)
  if not context.account or length == 0 or not ngx.var.upstream_status then return end
  context.sealing = true
  if length then ngx.header.content_length = 11 + 2 * (length - length % 16 + 16) end
  ngx.header.content_type = 'application/json'
  ngx.header['Envelope'] = 'sealed'
end

-- Body filter: collects the response, then seals it.
function _M.seal()
  local context = ngx.ctx
  if not context.sealing then return end
  local chunk, last = ngx.arg[1], ngx.arg[2]
  local pieces = context.pieces
  if not last then
    if chunk ~= '' then
      if not pieces then
        context.pieces = { chunk }
      else
        pieces[#pieces + 1] = chunk
      end
    end
    ngx.arg[1] = nil
    return
  end
  if pieces then
    pieces[#pieces + 1] = chunk
    chunk = table.concat(pieces)
  end
  ngx.arg[1] = seal(context.account, chunk)
end

-- Log phase.
function _M.count()
  ngx.shared.requests:incr(ngx.var.request_method .. ngx.status, 1, 0)
end

return _M
