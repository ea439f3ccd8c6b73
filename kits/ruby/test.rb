# frozen_string_literal: true

# Tests what the vectors cannot express. `ruby kits/ruby/test.rb`.

require 'minitest/autorun'
require_relative 'envelope'

class EnvelopeTest < Minitest::Test
  include EnvelopeSidecar

  KEY = 'demo-key-of-acme-not-a-secret-32'
  IV = 'demo-iv-of-acme-'

  def setup
    @envelope = Envelope.new(KEY, IV)
  end

  def refuses(code, &block)
    assert_equal code, assert_raises(EnvelopeError, &block).code
  end

  def test_the_self_test_passes
    assert_equal 8, EnvelopeSidecar.selftest
  end

  def test_a_value_comes_back_as_it_was
    value = { 'amount' => 1500, 'name' => 'Zoë', 'list' => [nil, true] }
    assert_equal value, @envelope.open_json(@envelope.seal_json(value))
    assert_equal '{}', @envelope.open_body(%( {"data" : "#{@envelope.seal('{}')}"}\n))
  end

  def test_what_is_not_sealed
    refuses('not_json') { @envelope.seal_json(Float::NAN) }
    refuses('not_utf8') { @envelope.seal("\"\xe9\"") }
    refuses('not_utf8') { @envelope.seal(nil) }
  end

  def test_a_plaintext_that_is_not_json_opens_as_text_only
    refuses('not_json') { @envelope.open_json(@envelope.seal('{"a":')) }
  end

  def test_a_byte_order_mark_is_kept
    assert_equal "\ufeff{}", @envelope.open(@envelope.seal("\ufeff{}"))
  end

  def test_other_bodies_are_no_envelopes
    ['{}', '[]', '{"data":1}', '{"data":"00","a":1}', '{"data":"00","data":"00"}', '{"Data":"00"}', ''].each do |body|
      refuses('malformed') { @envelope.open_body(body) }
    end
  end

  def test_bytes_are_refused_as_a_key
    refuses('key_decoded') { Envelope.new("#{KEY[1..]}\xff", IV) }
    refuses('key_empty') { Envelope.new(nil, IV) }
  end
end
