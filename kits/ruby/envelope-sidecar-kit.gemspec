# frozen_string_literal: true

Gem::Specification.new do |gem|
  gem.name = 'envelope-sidecar-kit'
  gem.version = '0.2.0'
  gem.summary = 'Seals requests to a payment API behind envelope-sidecar, and opens its responses.'
  gem.authors = ['The authors of envelope-sidecar']
  gem.license = 'MIT'
  gem.required_ruby_version = '>= 3.1'
  gem.files = %w[envelope.rb envelope_faraday.rb README.md LICENSE]
  gem.require_paths = ['.']
end
