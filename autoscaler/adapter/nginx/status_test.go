package nginx

import (
	"fmt"
	"strings"
	"testing"
)

const page = "Active connections: 291 \nserver accepts handled requests\n 16630948 16630947 31070465 \nReading: 6 Writing: 179 Waiting: 106 \n"

func TestTheStatusPageIsRead(t *testing.T) {
	got, err := ParseStatus(page)
	want := Status{Active: 291, Accepted: 16630948, Handled: 16630947, Requests: 31070465, Reading: 6, Writing: 179, Waiting: 106}
	if err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

func TestAnotherPageIsNoStatus(t *testing.T) {
	for name, text := range map[string]string{
		"empty":            "",
		"HTML":             "<html><body>404 Not Found</body></html>",
		"cut":              page[:len(page)-8],
		"followed by more": page + " 7",
		"negative":         strings.Replace(page, "179", "-179", 1),
		"too large":        strings.Replace(page, "291", "99999999999999999999", 1),
		"in another order": strings.Replace(strings.Replace(page, "Reading", "X", 1), "Writing", "Reading", 1),
	} {
		if got, err := ParseStatus(text); err == nil || got != (Status{}) {
			t.Errorf("%s: got %+v, %v, want an error", name, got, err)
		}
	}
}

func FuzzParseStatus(f *testing.F) {
	f.Add(page)
	f.Add("Active connections: 1")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseStatus(text)
		if err != nil {
			return
		}
		// The status, written in nginx's format, parses to the same values.
		again, err := ParseStatus(fmt.Sprintf("Active connections: %d \nserver accepts handled requests\n %d %d %d \nReading: %d Writing: %d Waiting: %d \n",
			s.Active, s.Accepted, s.Handled, s.Requests, s.Reading, s.Writing, s.Waiting))
		if err != nil || again != s {
			t.Errorf("%q: %+v became %+v, %v", text, s, again, err)
		}
	})
}
