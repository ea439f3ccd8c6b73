# frozen_string_literal: true

# Faraday for merchants of envelope-sidecar: seals requests, opens responses, raises typed errors. See README.md.

require 'faraday'
require 'securerandom'
require_relative 'envelope'

module EnvelopeSidecar
  # The sidecar refused the request. Decide by `code`, never by the status. `forwarded` is `no` if the core has not seen
  # the request, otherwise `maybe`; `retry_after` is in seconds.
  class Refusal < StandardError
    attr_reader :status, :code, :hint, :request_id, :retry_after, :forwarded

    def initialize(status, problem, retry_after)
      @status = status
      @code = problem['code']
      @hint = problem['hint']
      @request_id = problem['request_id']
      @retry_after = retry_after
      @forwarded = problem['forwarded'] == 'no' ? 'no' : 'maybe'
      super("#{status} #{code}: #{hint || problem['detail']}")
    end
  end

  # The payment may have been made: look it up by your reference before you send it again. `reason` is lost, swapped,
  # status, refused (then `refusal` says more), unsealed, not_opened or too_large.
  class OutcomeUnknown < StandardError
    attr_reader :reason, :status, :request_id, :refusal

    def initialize(reason, env = nil, refusal = nil)
      @reason = reason
      @status = env&.status
      @request_id = env&.response_headers&.[]('X-Request-Id')
      @refusal = refusal
      super(['the outcome is unknown: ', reason, status && ", #{status}"].join)
    end
  end

  # A middleware that raises EnvelopeError (nothing was sent), Refusal or OutcomeUnknown. It must be the last one before
  # the adapter, and must not be combined with one that follows redirects or repeats requests.
  #
  # envelope: returns the credentials to use; called for each request, so that a rotation needs no restart
  # prefixes: paths whose bodies are sealed; the two test endpoints are never among them
  # migrating: whether a 2xx may be unsealed; use this only while an account starts or stops encrypting
  # timeout: the longest wait for the next bytes of a response, in seconds
  # max_bytes: the longest body of a response
  # retries: the maximum number of times that a request is sent again if the core has not seen it
  # check_id: whether a response must have its request's X-Request-Id; false behind a gateway that replaces it
  class FaradayEnvelope < Faraday::Middleware
    # If `Retry-After` exceeds this many seconds, waiting is left to the caller.
    LONGEST_WAIT = 60

    # The body is longer than `max_bytes`.
    class TooLarge < StandardError; end

    def initialize(app, envelope:, prefixes: ['/api/s2s/'], migrating: false, timeout: 60, max_bytes: 16_777_216,
                   retries: 2, check_id: true)
      super(app)
      @envelope = envelope
      @prefixes = prefixes
      @migrating = migrating
      @timeout = timeout
      @max_bytes = max_bytes
      @retries = retries
      @check_id = check_id
    end

    def call(env)
      envelope = @envelope.call
      env.request_headers['X-Request-Id'] ||= SecureRandom.uuid
      env.request.timeout ||= @timeout
      if enveloped?(env.url.path)
        env.request_headers['Envelope-Credentials'] = envelope.fingerprint
        seal(env, envelope) unless env.body.nil? || env.body == ''
      else
        envelope = nil
      end
      body = env.body
      attempt = 0
      begin
        env.body = body
        exchange(env, envelope)
      rescue Refusal => e
        raise if e.forwarded != 'no' || attempt == @retries || e.retry_after.nil? || e.retry_after > LONGEST_WAIT

        attempt += 1
        sleep(e.retry_after)
        env = reset(env)
        retry
      end
    end

    private

    def seal(env, envelope)
      raise EnvelopeError.new('not_utf8', 'the body must be a string') unless env.body.is_a?(String)

      env.body = envelope.seal_body(env.body)
      env.request_headers['Content-Type'] = 'application/json'
      env.request_headers.delete('Content-Length')
    end

    # Faraday fills the same object again when a request is repeated.
    def reset(env)
      env.status = env.response = env.response_headers = env.reason_phrase = nil
      env
    end

    def exchange(env, envelope)
      content = +''.b
      env.request.on_data = lambda do |chunk, _size|
        content << chunk
        raise TooLarge if content.bytesize > @max_bytes
      end
      begin
        response = @app.call(env)
      rescue TooLarge
        raise OutcomeUnknown, 'too_large'
      rescue Faraday::Error, SystemCallError, IOError
        raise OutcomeUnknown, 'lost'
      end
      response.on_complete { |done| read(done, content, envelope) }
    end

    # Opens the response in place. `envelope` is nil where nothing is sealed.
    def read(env, content, envelope)
      headers = env.response_headers
      check_id(env)
      envelope = nil if env.method == :head || [204, 304].include?(env.status)
      type = headers['Content-Type']
      sealed = envelope && headers['Envelope'].to_s.downcase == 'sealed'
      if sealed
        content = open_content(env, content, envelope)
        type = headers.delete('Envelope-Content-Type') || 'application/json'
      end
      refuse(env, content) if env.status >= 400 && problem?(type)
      raise OutcomeUnknown.new('status', env) if [502, 503, 504].include?(env.status)
      if envelope && !sealed && (200..299).cover?(env.status) && !content.empty? && !@migrating
        raise OutcomeUnknown.new('unsealed', env)
      end

      env.body = content.force_encoding(Encoding::UTF_8)
      headers['Content-Type'] = type if sealed
    end

    # After one response too many on a connection, each request gets the response to the previous one.
    def check_id(env)
      headers = env.response_headers
      id = headers['X-Request-Id']
      ours = (200..299).cover?(env.status) || headers['Envelope'] || problem?(headers['Content-Type'])
      return unless @check_id && ours && id && id != env.request_headers['X-Request-Id']

      raise OutcomeUnknown.new('swapped', env)
    end

    def open_content(env, content, envelope)
      envelope.open_body(content)
    rescue EnvelopeError
      raise OutcomeUnknown.new('not_opened', env)
    end

    # Raises an error only for a problem document from the sidecar.
    def refuse(env, content)
      problem = JSON.parse(content.dup.force_encoding(Encoding::UTF_8))
      return unless problem.is_a?(Hash) && problem['code'].is_a?(String) && problem['request_id'].is_a?(String)

      after = env.response_headers['Retry-After'].to_s
      refusal = Refusal.new(env.status, problem, after.match?(/\A\d{1,6}\z/) ? after.to_i : nil)
      raise OutcomeUnknown.new('refused', env, refusal) if env.status >= 500 && refusal.forwarded != 'no'

      raise refusal
    rescue JSON::ParserError
      nil
    end

    def problem?(type)
      type.to_s.match?(%r{\Aapplication/problem\+json\b}i)
    end

    # Matches paths as the sidecar does, ignoring case and a slash at the end.
    def enveloped?(path)
      path = path.downcase.chomp('/')
      return false if %w[/api/s2s/aes-encrypt /api/s2s/aes-decrypt].include?(path)

      @prefixes.any? { |prefix| "#{path}/".start_with?(prefix) }
    end
  end

  Faraday::Request.register_middleware(envelope: FaradayEnvelope)
end
