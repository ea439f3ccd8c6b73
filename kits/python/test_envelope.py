"""Tests what the vectors cannot express. `python3 -m unittest discover kits/python`."""

import unittest

from envelope import Envelope, EnvelopeError, selftest

DEMO = {"key": "demo-key-of-acme-not-a-secret-32", "iv": "demo-iv-of-acme-"}


class EnvelopeTest(unittest.TestCase):
    def setUp(self):
        self.envelope = Envelope(**DEMO)

    def refuses(self, code, run, *arguments):
        with self.assertRaises(EnvelopeError) as caught:
            run(*arguments)
        self.assertEqual(caught.exception.code, code)

    def test_the_self_test_passes(self):
        self.assertEqual(selftest(), 8)

    def test_a_value_comes_back_as_it_was(self):
        value = {"amount": 1500, "name": "Zoë", "list": [None, True]}
        self.assertEqual(self.envelope.open_json(self.envelope.seal_json(value)), value)
        self.assertEqual(self.envelope.open_body(' {"data" : "%s"}\n' % self.envelope.seal("{}")), "{}")

    def test_what_has_no_json_is_not_sealed(self):
        for value in (object(), float("nan"), b"bytes"):
            self.refuses("not_json", self.envelope.seal_json, value)

    def test_half_of_a_surrogate_pair_and_bytes_are_not_sealed(self):
        for text in ("\ud83d", b"{}", None):
            self.refuses("not_utf8", self.envelope.seal, text)

    def test_a_plaintext_that_is_not_json_opens_as_text_only(self):
        data = self.envelope.seal('{"a":')
        self.assertEqual(self.envelope.open(data), '{"a":')
        self.refuses("not_json", self.envelope.open_json, data)

    def test_a_byte_order_mark_is_kept(self):
        self.assertEqual(self.envelope.open(self.envelope.seal("\ufeff{}")), "\ufeff{}")

    def test_other_bodies_are_no_envelopes(self):
        for body in ("{}", "[]", '{"data":1}', '{"data":"00","a":1}', '{"data":"00","data":"00"}', '{"Data":"00"}', ""):
            self.refuses("malformed", self.envelope.open_body, body)

    def test_bytes_are_refused_as_a_key(self):
        self.refuses("key_decoded", Envelope, DEMO["key"].encode(), DEMO["iv"])


if __name__ == "__main__":
    unittest.main()
