# frozen_string_literal: true

# Envelopes of envelope-sidecar: AES-256-CBC with PKCS#7 padding, in hex or base64.
#
# The core of the kit: one file that needs only Ruby's openssl and may be copied. Version 0.2.0, MIT licence.

require 'digest'
require 'json'
require 'openssl'

module EnvelopeSidecar
  # Credentials that cannot be right, text that cannot be sealed, or data that does not open.
  class EnvelopeError < StandardError
    # Such as `key_quoted`, `malformed` or `decryption_failed`.
    attr_reader :code

    def initialize(code, message)
      super("#{code}: #{message}")
      @code = code
    end
  end

  # Seals and opens with the credentials of one account in one environment. Printing it shows neither key nor IV.
  class Envelope
    # The messages for bad credentials, by code. No message contains any part of a key, an IV or a plaintext.
    FLAWS = {
      'empty' => 'is empty',
      'decoded' => 'was decoded: pass the string as you were given it',
      'nul' => 'contains NUL bytes: pass the string as you were given it',
      'quoted' => 'is in quotes: remove them',
      'space' => 'begins or ends with white space: remove it',
      'pem' => 'is a PEM file: pass the string of 32 characters',
      'api_key' => 'is an API key: pass the encryption key and its IV',
      'hex' => 'is in hex: pass the string as you were given it',
      'base64' => 'is in base64: set the key text to base64, or pass the string of 32 characters',
      'not_base64' => 'is not base64, which the key text says',
      'length' => 'has the wrong length: a key has 32 bytes, an IV 16'
    }.freeze

    # Names the credentials without showing them: the first 16 hex digits of SHA-256(key bytes, IV bytes).
    attr_reader :fingerprint

    # Raises EnvelopeError if the key or the IV cannot be right; its code names the mistake.
    def initialize(key, iv, key_text: 'text', encoding: 'hex')
      raise ArgumentError, 'key_text is text or base64' unless %w[text base64].include?(key_text)
      raise ArgumentError, 'encoding is hex or base64' unless %w[hex base64].include?(encoding)

      key = Envelope.refuse_flaws('key', key)
      iv = Envelope.refuse_flaws('iv', iv)
      pair = key_text == 'base64' ? Envelope.read_base64(key, iv) : Envelope.read_text(key, iv)
      # What a lambda holds is neither inspected nor serialised.
      @pair = -> { pair }
      @encoding = encoding
      @fingerprint = Digest::SHA256.hexdigest(pair.join)[0, 16]
    end

    # The ciphertext of a JSON text, without the object around it.
    def seal(text)
      text = Envelope.utf8(text)
      raise EnvelopeError.new('not_utf8', 'the text is not UTF-8') if text.nil?

      ciphertext = run(:encrypt, text)
      @encoding == 'hex' ? ciphertext.unpack1('H*') : [ciphertext].pack('m0')
    end

    # Raises EnvelopeError `not_json` for a value that JSON cannot express.
    def seal_json(value)
      seal(JSON.generate(value))
    rescue JSON::GeneratorError
      raise EnvelopeError.new('not_json', 'the value has no JSON')
    end

    # The text that was sealed, from hex or base64. Raises EnvelopeError `malformed` or `decryption_failed`.
    def open(data)
      ciphertext = Envelope.decode(data)
      begin
        text = Envelope.utf8(run(:decrypt, ciphertext))
      rescue OpenSSL::Cipher::CipherError
        text = nil
      end
      # The reason would reveal whether the padding or the text is wrong, and is of no use.
      text or raise EnvelopeError.new('decryption_failed', 'wrong key or IV, or the data was changed on the way')
    end

    # Raises EnvelopeError as `open`, or `not_json`.
    def open_json(data)
      JSON.parse(open(data))
    rescue JSON::ParserError, JSON::NestingError
      raise EnvelopeError.new('not_json', 'the plaintext is not JSON')
    end

    # The body of a request: `{"data":"…"}`.
    def seal_body(text)
      %({"data":"#{seal(text)}"})
    end

    # The text in the body of a response: an object whose only member is `data`.
    def open_body(body)
      match = /\A\s*\{\s*"data"\s*:\s*"([0-9A-Za-z+\/=]*)"\s*\}\s*\z/n.match(body.b)
      raise EnvelopeError.new('malformed', 'the body is not {"data":"…"}') if match.nil?

      open(match[1])
    end

    # For code that expects an empty string or null instead of errors.
    def compat
      Compat.new(self)
    end

    def to_s
      "Envelope(#{fingerprint})"
    end
    alias inspect to_s

    def marshal_dump
      raise TypeError, 'an Envelope is not serialised'
    end

    class << self
      # @api private
      def read_text(key, iv)
        first = iv[0, 16]
        swapped if key.bytesize == 16 && iv.bytesize == 32
        refuse('key', 'hex') if key.match?(/\A\h{64}\z/)
        refuse('key', 'base64') if key.match?(%r{\A[A-Za-z0-9+/]{43}=\z})
        refuse('key', 'decoded') if key.bytesize == 24
        refuse('key', 'length') if key.bytesize != 32
        raise EnvelopeError.new('iv_is_key', 'the IV is the key') if key == iv

        # Only the hex of printable text is refused, because other hex digits may well be an IV.
        refuse('iv', 'hex') if iv.match?(/\A(?:[2-6]\h|7[0-9a-eA-E]){16}\z/)
        refuse('iv', 'decoded') if iv.bytesize == 12
        refuse('iv', 'length') if first.bytesize != 16
        [key.b, first.b]
      end

      # @api private
      def read_base64(key, iv)
        key_bytes = strict_base64(key)
        iv_bytes = strict_base64(iv)
        swapped if key_bytes&.bytesize == 16 && iv_bytes&.bytesize == 32
        refuse('key', 'not_base64') if key_bytes.nil?
        refuse('key', 'length') if key_bytes.bytesize != 32
        refuse('iv', 'not_base64') if iv_bytes.nil?
        refuse('iv', 'length') if iv_bytes.bytesize != 16
        [key_bytes, iv_bytes]
      end

      # @api private
      def refuse_flaws(name, value)
        refuse(name, 'empty') if value.nil? || value == ''
        value = utf8(value)
        refuse(name, 'decoded') if value.nil? || value.include?("\ufffd")
        refuse(name, 'nul') if value.include?("\0")
        refuse(name, 'quoted') if value.match?(/\A(["']).*\1\z/m)
        refuse(name, 'space') if value.match?(/\A[ \t\r\n]|[ \t\r\n]\z/)
        refuse(name, 'pem') if value.start_with?('-----BEGIN')
        refuse(name, 'api_key') if value.match?(/\A[ps]k_(?:test|live)_/)
        value
      end

      # @api private Nil if the value is not a string of UTF-8.
      def utf8(value)
        text = value.is_a?(String) ? value.dup.force_encoding(Encoding::UTF_8) : nil
        text if text&.valid_encoding?
      end

      # @api private Hex digits in either case are read as hex, everything else as base64.
      def decode(data)
        is_hex = data.is_a?(String) && data.match?(/\A(?:\h\h)+\z/)
        ciphertext = is_hex ? [data].pack('H*') : strict_base64(data)
        if ciphertext.nil? || ciphertext.empty? || ciphertext.bytesize % 16 != 0
          raise EnvelopeError.new('malformed', 'the data is not whole blocks in hex or base64: was it cut?')
        end

        ciphertext
      end

      private

      def strict_base64(text)
        decoded = text.unpack1('m0')
        [decoded].pack('m0') == text ? decoded : nil
      rescue ArgumentError, NoMethodError
        nil
      end

      def refuse(name, flaw)
        raise EnvelopeError.new("#{name}_#{flaw}", "the #{name == 'key' ? 'key' : 'IV'} #{FLAWS[flaw]}")
      end

      def swapped
        raise EnvelopeError.new('swapped', 'the key and the IV are swapped')
      end
    end

    private

    def run(direction, text)
      cipher = OpenSSL::Cipher.new('aes-256-cbc').public_send(direction)
      cipher.key, cipher.iv = @pair.call
      (text.empty? ? ''.b : cipher.update(text)) + cipher.final
    end
  end

  # Returns `""` for text that cannot be sealed, and nil for data that does not open.
  Compat = Struct.new(:envelope) do
    def seal(text)
      envelope.seal(text)
    rescue EnvelopeError
      ''
    end

    def open(data)
      envelope.open(data)
    rescue EnvelopeError
      nil
    end
  end

  # Checks this machine with vectors from OpenSSL. Returns their number. Raises EnvelopeError `selftest_failed`.
  def self.selftest
    hex, base64 = %w[hex base64].map do |encoding|
      Envelope.new('demo-key-of-acme-not-a-secret-32', 'demo-iv-of-acme-', encoding: encoding)
    end
    charge = ['{"amount":1500}', 'b1cfe5cf79092760fa94b1d5aa17a154']
    name = ['{"name":"Zoë €"}', 'eH7i+tysjZUva7EzowKts3gpbWWDCyxUWxroNUMbR8g=']
    results = {
      'fingerprint' => hex.fingerprint == '3e2af6e2f2d786fd',
      'seal hex' => hex.seal(charge[0]) == charge[1],
      'open hex' => hex.open(charge[1]) == charge[0],
      'seal base64' => base64.seal(name[0]) == name[1],
      'open base64' => base64.open(name[1]) == name[0],
      'cut' => hex.compat.open('b1cfe5cf79092760fa94b1d5aa17a15400').nil?,
      'padding' => hex.compat.open('c39659865b67270102e9ded9196d0a29').nil?,
      'UTF-8' => hex.compat.open('75135cc672b20db60081c364bf80ba98').nil?
    }
    failed = results.key(false)
    raise EnvelopeError.new('selftest_failed', failed) if failed

    results.size
  end
end
