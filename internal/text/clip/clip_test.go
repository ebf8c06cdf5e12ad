package clip

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestTextThatIsTooLongIsCut(t *testing.T) {
	for _, tc := range []struct{ got, want string }{
		{Bytes("", 3), ""},
		{Bytes("12345", 5), "12345"},
		{Bytes("123456", 5), "12…"},
		{Bytes("1äöü", 6), "1ä…"}, // 7 bytes, of which ä ends at the third
		{Bytes("äöü", 5), "ä…"},
		{Cell(strings.Repeat("ä", 40)), strings.Repeat("ä", 40)},
		{Cell(strings.Repeat("ä", 41)), strings.Repeat("ä", 40) + "..."},
	} {
		if tc.got != tc.want {
			t.Errorf("%q, want %q", tc.got, tc.want)
		}
	}
}

func TestBytesKeepsItsBoundAndWholeCharacters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, most := rapid.String().Draw(t, "text"), rapid.IntRange(3, 20).Draw(t, "most")
		got := Bytes(text, most)
		if len(got) > most || !utf8.ValidString(got) || !strings.HasPrefix(text, strings.TrimSuffix(got, "…")) {
			t.Fatalf("%q in %d bytes is %q", text, most, got)
		}
	})
}
