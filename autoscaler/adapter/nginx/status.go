package nginx

import (
	"fmt"
	"strconv"
	"strings"
)

// Status is what the stub_status page says. Counters begin at 0 with nginx.
type Status struct {
	// Active connections are those with clients, the waiting ones included.
	Active uint64
	// Accepted and Handled count connections; fewer are handled than accepted
	// where a limit was reached.
	Accepted, Handled uint64
	// Requests counts requests of clients.
	Requests uint64
	// Reading are connections whose request's header is being read, Writing those
	// with a request under way, the one for this page among them, and Waiting
	// those kept alive without one.
	Reading, Writing, Waiting uint64
}

// ParseStatus reads the page. It refuses anything but its seven numbers with their
// names, in nginx's order; spaces do not matter.
func ParseStatus(page string) (Status, error) {
	var s Status
	want := []struct {
		word  string
		value *uint64
	}{
		{"Active", nil}, {"connections:", nil}, {"", &s.Active},
		{"server", nil}, {"accepts", nil}, {"handled", nil}, {"requests", nil},
		{"", &s.Accepted}, {"", &s.Handled}, {"", &s.Requests},
		{"Reading:", nil}, {"", &s.Reading}, {"Writing:", nil}, {"", &s.Writing}, {"Waiting:", nil}, {"", &s.Waiting},
	}
	fields := strings.Fields(page)
	if len(fields) != len(want) {
		return Status{}, fmt.Errorf("stub_status page has %d words, want %d: is it another page?", len(fields), len(want))
	}
	for i, w := range want {
		if w.value == nil {
			if fields[i] != w.word {
				return Status{}, fmt.Errorf("stub_status page has %q where %q is expected: is it another page?", fields[i], w.word)
			}
			continue
		}
		n, err := strconv.ParseUint(fields[i], 10, 64)
		if err != nil {
			return Status{}, fmt.Errorf("stub_status page has %q where a number is expected", fields[i])
		}
		*w.value = n
	}
	return s, nil
}
