package nginx

import (
	"fmt"
	"strconv"
	"strings"
)

// Status is the content of the stub_status page. Counters start at 0 when nginx starts.
type Status struct {
	// Active connections are the client connections, including waiting ones.
	Active uint64
	// Accepted and Handled count connections; fewer are handled than accepted if a limit was
	// reached.
	Accepted, Handled uint64
	// Requests counts client requests.
	Requests uint64
	// Reading are connections whose request header is being read, Writing are those with a
	// request in progress, including the one for this page, and Waiting are idle keep-alive
	// connections.
	Reading, Writing, Waiting uint64
}

// ParseStatus parses the page. It accepts only the seven numbers with their names, in nginx's
// order; white space does not matter.
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
		return Status{}, fmt.Errorf("stub_status page has %d words, expected %d: check that the URL is that of stub_status", len(fields), len(want))
	}
	for i, w := range want {
		if w.value == nil {
			if fields[i] != w.word {
				return Status{}, fmt.Errorf("stub_status page has %q where %q is expected: check that the URL is that of stub_status", fields[i], w.word)
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
