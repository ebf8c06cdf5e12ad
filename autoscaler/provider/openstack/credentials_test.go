package openstack

import (
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"supercargo.dev/supercargo/test/kit/testfile"
)

const (
	secretWord = "hush-hush-hush"
	keystone   = "https://keystone.example.org/v3"
)

// cloudsYAML returns a clouds.yaml with one cloud, and further lines for it.
func cloudsYAML(more string) []byte {
	return fmt.Appendf(nil, "clouds:\n  one:\n    auth:\n      auth_url: %s\n      username: fleet\n      password: %s\n"+
		"      project_name: k8s\n      user_domain_name: Default\n      project_domain_name: Default\n    region_name: North\n%s", keystone, secretWord, more)
}

func TestCredentialsAreReadFromACloudsYAML(t *testing.T) {
	l, problem := parseLogin(map[string][]byte{"clouds.yaml": cloudsYAML("")}, "", "")
	if problem != "" {
		t.Fatal(problem)
	}
	if a := &l.auth; a.IdentityEndpoint != keystone || a.Username != "fleet" || a.Password != secretWord || a.Scope.ProjectName != "k8s" || !a.AllowReauth {
		t.Errorf("logs in with %+v", l.auth)
	}
	if l.endpoint.Region != "North" {
		t.Errorf("the region is %q", l.endpoint.Region)
	}
	if l, _ := parseLogin(map[string][]byte{"clouds.yaml": cloudsYAML("")}, "one", "South"); l == nil || l.endpoint.Region != "South" {
		t.Error("the region of the fleet does not count")
	}
}

func TestCredentialsAreReadFromAnApplicationCredential(t *testing.T) {
	data := map[string][]byte{
		"auth_url": []byte(keystone + "\n"), "application_credential_id": []byte("abc\n"),
		"application_credential_secret": []byte(secretWord + "\n"), "region_name": []byte("North\n"),
	}
	l, problem := parseLogin(data, "", "")
	if problem != "" {
		t.Fatal(problem)
	}
	if a := &l.auth; a.IdentityEndpoint != keystone || a.ApplicationCredentialID != "abc" || a.ApplicationCredentialSecret != secretWord || l.endpoint.Region != "North" {
		t.Errorf("logs in with %+v in %+v", l.auth, l.endpoint)
	}
}

func TestTheEnvironmentHasNoSayInCredentials(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	trusted := testfile.New(t, "ca.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	for name, value := range map[string]string{
		"OS_CLOUD": "other", "OS_REGION_NAME": "South", "OS_INTERFACE": "admin", "OS_CLIENT_CONFIG_FILE": "/none", "OS_CACERT": trusted,
	} {
		t.Setenv(name, value)
	}
	l, problem := parseLogin(map[string][]byte{"clouds.yaml": cloudsYAML("")}, "", "")
	if problem != "" || l.endpoint.Region != "North" || l.endpoint.Availability != "public" || l.tls.RootCAs != nil {
		t.Errorf("%s: logs in at %+v", problem, l)
	}
}

func TestCertificatesAreVerifiedByThoseInTheSecret(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // it logs clients that do not trust it
	server.StartTLS()
	defer server.Close()
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for name, ca := range map[string][]byte{"given": certificate, "missing": nil} {
		data := map[string][]byte{"clouds.yaml": cloudsYAML("    verify: true\n")}
		if ca != nil {
			data["cacert"] = ca
		}
		l, problem := parseLogin(data, "", "")
		if problem != "" {
			t.Fatal(problem)
		}
		client := http.Client{Transport: &http.Transport{TLSClientConfig: l.tls}}
		answer, err := client.Get(server.URL)
		if err == nil {
			_ = answer.Body.Close()
		}
		if (err == nil) != (ca != nil) {
			t.Errorf("with the certificate %s: %v", name, err)
		}
	}
}

func TestWhatIsWrongWithCredentialsIsSaid(t *testing.T) {
	clouds := func(text string) map[string][]byte { return map[string][]byte{"clouds.yaml": []byte(text)} }
	with := func(more string) map[string][]byte { return clouds(string(cloudsYAML(more))) }
	application := func(url string) map[string][]byte {
		return map[string][]byte{"auth_url": []byte(url), "application_credential_id": []byte("id"), "application_credential_secret": []byte(secretWord)}
	}
	tests := []struct {
		name, cloud string
		data        map[string][]byte
		says        string
	}{
		{"an empty Secret", "", nil, "one of clouds.yaml and application_credential_id is required"},
		{"no YAML", "", clouds("clouds: [" + secretWord), "clouds.yaml is not valid YAML"},
		{"no cloud", "", clouds("clouds: {}"), "has 0 clouds"},
		{"several clouds", "", with("  two: {}\n"), `has 2 clouds ["one" "two"]: select one in spec.openStack.credentials.cloud`},
		{"another cloud", "two", with(""), `has no cloud "two"`},
		{"a profile", "", with("    profile: vexxhost\n"), "replace it with the settings of the profile"},
		{"a vendor", "", with("    cloud: vexxhost\n"), "replace it with the settings of the profile"},
		{"a file of certificates", "", with("    cacert: /etc/ssl/ca.pem\n"), "into the entry cacert of the Secret"},
		{"a file of a client certificate", "", with("    cert: /etc/ssl/me.pem\n"), "refers to files"},
		{"no verification", "", with("    verify: false\n"), "certificates are always verified: remove it"},
		{"a token", "", clouds("clouds: {one: {auth: {auth_url: 'https://k/v3', token: " + secretWord + "}}}"), "cannot be renewed"},
		{"no URL", "", clouds("clouds: {one: {auth: {username: fleet}}}"), "auth_url is required"},
		{"a URL with a password", "", application("https://fleet:" + secretWord + "@k/v3"), "must contain only a host and a path"},
		{"a URL with a query", "", application("https://k/v3?password=" + secretWord), "must contain only a host and a path"},
		{"another scheme", "", application("ftp://k/v3"), "auth_url must be a URL"},
		{"no scheme", "", application("k:5000"), "auth_url must be a URL"},
		{"no secret", "", map[string][]byte{"application_credential_id": []byte("id"), "auth_url": []byte(keystone)}, "application_credential_secret is required"},
		{"certificates that are none", "", map[string][]byte{"clouds.yaml": cloudsYAML(""), "cacert": []byte(secretWord)}, "no PEM certificate"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			l, problem := parseLogin(tc.data, tc.cloud, "")
			if l != nil || !strings.Contains(problem, tc.says) {
				t.Errorf("the problem is %q, want %q in it", problem, tc.says)
			}
			if strings.Contains(problem, secretWord) {
				t.Errorf("the problem %q tells a secret", problem)
			}
		})
	}
}

func TestCredentialsAreNeverPrinted(t *testing.T) {
	l, problem := parseLogin(map[string][]byte{"clouds.yaml": cloudsYAML("")}, "", "")
	if problem != "" {
		t.Fatal(problem)
	}
	l.where = "Secret a/b"
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		for _, value := range []any{l, *l, session{login: l}.login} {
			if text := fmt.Sprintf(format, value); strings.Contains(text, secretWord) || !strings.Contains(text, "Secret a/b") {
				t.Errorf("%s prints %s", format, text)
			}
		}
	}
}

func TestOtherCredentialsHaveAnotherSum(t *testing.T) {
	one := map[string][]byte{"a": []byte("1"), "b": []byte("2")}
	if sum(one) != sum(map[string][]byte{"b": []byte("2"), "a": []byte("1")}) {
		t.Error("the order counts")
	}
	for _, other := range []map[string][]byte{{"a": []byte("1")}, {"a": []byte("2"), "b": []byte("1")}, {"a": []byte("1"), "b": []byte("2"), "c": nil}} {
		if sum(one) == sum(other) {
			t.Errorf("%v has the same sum", other)
		}
	}
}

// FuzzParseLogin searches for a clouds.yaml that is accepted and leads to something other than a URL, or whose problem
// contains the password.
func FuzzParseLogin(f *testing.F) {
	for _, more := range []string{"", "    verify: false\n", "    profile: x\n", "  two: {}\n", "    cacert: x\n", "\t", "    auth: 3\n"} {
		f.Add(string(cloudsYAML(more)), "", "")
	}
	f.Add("clouds: {one: {auth: {auth_url: 'https://k/v3', password: hush-hush-hush}}}", "one", "North")
	f.Fuzz(func(t *testing.T, text, cloud, region string) {
		l, problem := parseLogin(map[string][]byte{"clouds.yaml": []byte(text)}, cloud, region)
		switch {
		case (l == nil) == (problem == ""):
			t.Fatalf("login %v, problem %q", l, problem)
		case l == nil && strings.Contains(problem, secretWord) && !strings.Contains(cloud, secretWord):
			if !namesCloud(problem) {
				t.Fatalf("the problem %q tells a secret", problem)
			}
		case l != nil && (endpointProblem(l.auth.IdentityEndpoint) != "" || l.tls.InsecureSkipVerify || !l.auth.AllowReauth):
			t.Fatalf("logs in at %q", l.auth.IdentityEndpoint)
		}
	})
}

// namesCloud reports whether a problem repeats the names of clouds, which are not secret.
func namesCloud(problem string) bool { return strings.Contains(problem, "cloud") }
