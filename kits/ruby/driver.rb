# frozen_string_literal: true

# Runs this kit for kits/conformance: one JSON object per line on stdin, one outcome per line on stdout.

require 'pp'
require 'yaml'
require_relative 'envelope_faraday'

module Driver
  # One client for each set of options. It is kept during rotations.
  @clients = {}

  class << self
    include EnvelopeSidecar

    def envelope_of(operation)
      options = { key_text: operation['key_text'], encoding: operation['encoding'] }.compact
      Envelope.new(operation['key'], operation['iv'], **options)
    end

    def client_for(operation)
      options = {
        migrating: operation['migrating'] || false,
        timeout: (operation['timeout_ms'] || 10_000) / 1000.0,
        max_bytes: operation['max_bytes'] || 65_536,
        check_id: !operation['any_id']
      }
      @clients[options] ||= Faraday.new do |client|
        client.request :envelope, envelope: -> { @current }, **options
        client.adapter Faraday.default_adapter
      end
    end

    def call(operation)
      @current = envelope_of(operation)
      method = operation['method'].downcase.to_sym
      response = client_for(operation).run_request(method, operation['url'], operation['body'], operation['headers'])
      { status: response.status, type: response.headers['Content-Type'], body: response.body.to_s }
    end

    def shown(envelope)
      texts = [envelope.to_s, envelope.inspect, envelope.pretty_inspect, JSON.generate([envelope]), [envelope].to_s]
      texts << YAML.dump(envelope.instance_variables.to_h { |name| [name, envelope.instance_variable_get(name).inspect] })
      begin
        texts << Marshal.dump(envelope)
      rescue TypeError => e
        texts << e.message
      end
    end

    def run(operation)
      case operation['op']
      when 'clients' then { clients: ['faraday'] }
      when 'selftest' then { passed: EnvelopeSidecar.selftest }
      when 'call' then call(operation)
      when 'seal' then { data: envelope_of(operation).seal(operation['plaintext']) }
      when 'open' then { plaintext: envelope_of(operation).open(operation['data']) }
      when 'fingerprint' then { fingerprint: envelope_of(operation).fingerprint }
      when 'show' then { shown: shown(envelope_of(operation)) }
      when 'compat'
        compat = envelope_of(operation).compat
        { plaintext: compat.open(operation['data']), data: compat.seal("\xff") }
      else { error: { type: 'driver', code: 'unknown_op' } }
      end
    end

    def refusal_in(error)
      names = %i[status code hint request_id retry_after forwarded message]
      { type: 'refusal', **names.to_h { |name| [name, error.public_send(name)] } }
    end

    def outcome(operation)
      run(operation)
    rescue EnvelopeError => e
      { error: { type: 'envelope', code: e.code, message: e.message } }
    rescue Refusal => e
      { error: refusal_in(e) }
    rescue OutcomeUnknown => e
      refusal = e.refusal && refusal_in(e.refusal)
      more = { status: e.status, request_id: e.request_id, message: e.message, refusal: refusal }
      { error: { type: 'outcome_unknown', code: e.reason, **more } }
    end
  end
end

$stdout.sync = true
$stdin.each_line { |line| puts JSON.generate(Driver.outcome(JSON.parse(line))) }
