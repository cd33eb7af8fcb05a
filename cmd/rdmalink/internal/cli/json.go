package cli

import "unicode/utf8"

const hexDigits = "0123456789abcdef"

// AppendJSON appends a string in quotes. Bytes that are no UTF-8, which JSON
// can't hold, become U+FFFD.
func AppendJSON(b []byte, s string) []byte {
	b = append(b, '"')
	for i := 0; i < len(s); {
		c, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case c == utf8.RuneError && size == 1:
			b = append(b, "\ufffd"...)
		case c == '"' || c == '\\':
			b = append(b, '\\', byte(c))
		case c < ' ' || c >= 0x7f && c < 0xa0: // also C1, which terminals obey
			b = appendControl(b, byte(c))
		default:
			b = append(b, s[i:i+size]...)
		}
		i += size
	}
	return append(b, '"')
}

func appendControl(b []byte, c byte) []byte {
	switch c {
	case '\t':
		return append(b, `\t`...)
	case '\n':
		return append(b, `\n`...)
	case '\r':
		return append(b, `\r`...)
	case '\f':
		return append(b, `\f`...)
	case '\b':
		return append(b, `\b`...)
	}
	return append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}
