package servingcert

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

var (
	now   = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	hosts = []string{"webhook.ns.svc", "127.0.0.1"}
)

func made(t *testing.T, before []byte, at time.Time) Pair {
	t.Helper()
	p, err := New(hosts, before, at)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestACertificateIsGoodForItsHostsAndItsTime(t *testing.T) {
	p, other := made(t, nil, now), made(t, nil, now)
	for _, tc := range []struct {
		name  string
		pair  Pair
		hosts []string
		at    time.Time
		says  string // empty if valid
	}{
		{"when it is made", p, hosts, now, ""},
		{"on a machine whose clock is late", p, hosts, now.Add(-Skew), ""},
		{"long before it expires", p, hosts, now.Add(Lifetime - RenewBefore - time.Second), ""},
		{"when it is to be renewed", p, hosts, now.Add(Lifetime - RenewBefore), "it expires at 2027-01-01T12:00:00Z"},
		{"when it has expired", p, hosts, now.Add(Lifetime + time.Second), "not trusted"},
		{"for another name", p, []string{"other.ns.svc"}, now, "not valid for other.ns.svc"},
		{"for another address", p, []string{"127.0.0.2"}, now, "not valid for 127.0.0.2"},
		{"by an authority that others do not trust", Pair{p.Certificate, p.Key, other.Authorities}, hosts, now, "not trusted"},
		{"without an authority", Pair{p.Certificate, p.Key, nil}, hosts, now, "no certificate authority"},
		{"with the key of another", Pair{p.Certificate, other.Key, p.Authorities}, hosts, now, "read the certificate"},
		{"where there is none", Pair{}, hosts, now, "read the certificate"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := tc.pair.Check(tc.hosts, tc.at)
			if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("it is %v, want %q", err, tc.says)
			}
		})
	}
}

func TestTheBundleTrustsTheCertificateBeforeToo(t *testing.T) {
	first := made(t, nil, now)
	second := made(t, first.Authorities, now.Add(time.Hour))
	for name, p := range map[string]Pair{"old": first, "new": second} {
		if err := (Pair{p.Certificate, p.Key, second.Authorities}).Check(hosts, now.Add(time.Hour)); err != nil {
			t.Errorf("the %s certificate: %v", name, err)
		}
	}
	third := made(t, second.Authorities, now.Add(2*time.Hour))
	if n := bytes.Count(third.Authorities, []byte("BEGIN")); n != 2 {
		t.Errorf("the bundle has %d authorities, want 2: they must not pile up", n)
	}
	late := made(t, first.Authorities, now.Add(2*Lifetime))
	if n := bytes.Count(late.Authorities, []byte("BEGIN")); n != 1 {
		t.Errorf("the bundle has %d authorities, want only the one that has not expired", n)
	}
}
