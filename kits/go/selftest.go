package envelope

// Selftest checks this machine with vectors from OpenSSL, and returns their number. Its error is `selftest_failed`.
func Selftest() (int, error) {
	demo := Config{Key: "demo-key-of-acme-not-a-secret-32", IV: "demo-iv-of-acme-"}
	inHex, err := New(demo)
	demo.Encoding = "base64"
	inBase64, err2 := New(demo)
	if err != nil || err2 != nil {
		return 0, &Error{"selftest_failed", "credentials"}
	}
	seals := func(e *Envelope, text, data string) bool { got, err := e.Seal(text); return err == nil && got == data }
	opens := func(e *Envelope, data, text string) bool { got, err := e.Open(data); return err == nil && got == text }
	charge, chargeData := `{"amount":1500}`, "b1cfe5cf79092760fa94b1d5aa17a154"
	name, nameData := `{"name":"Zoë €"}`, "eH7i+tysjZUva7EzowKts3gpbWWDCyxUWxroNUMbR8g="
	tried := []struct {
		name  string
		right bool
	}{
		{"fingerprint", inHex.Fingerprint() == "3e2af6e2f2d786fd"},
		{"seal hex", seals(inHex, charge, chargeData)},
		{"open hex", opens(inHex, chargeData, charge)},
		{"seal base64", seals(inBase64, name, nameData)},
		{"open base64", opens(inBase64, nameData, name)},
		{"cut", inHex.Compat().Open("b1cfe5cf79092760fa94b1d5aa17a15400") == nil},
		{"padding", inHex.Compat().Open("c39659865b67270102e9ded9196d0a29") == nil},
		{"UTF-8", inHex.Compat().Open("75135cc672b20db60081c364bf80ba98") == nil},
	}
	for _, each := range tried {
		if !each.right {
			return 0, &Error{"selftest_failed", each.name}
		}
	}
	return len(tried), nil
}
