package openstack

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"maps"
	"net/url"
	"slices"

	"github.com/go-logr/logr"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
)

// The entries of a Secret with credentials.
const (
	keyCloudsYAML = "clouds.yaml"
	keyCACert     = "cacert"
	keyAuthURL    = "auth_url"
	keyAppID      = "application_credential_id"
	keyAppSecret  = "application_credential_secret"
	keyRegion     = "region_name"
)

// login holds the credentials. It is never printed.
type login struct {
	auth     gophercloud.AuthOptions
	endpoint gophercloud.EndpointOpts
	tls      *tls.Config
	// where names the Secret, for messages.
	where string
	// sum is a digest of the credentials.
	sum string
}

// String keeps credentials out of logs.
func (l login) String() string { return "credentials of " + l.where }

// GoString keeps credentials out of logs.
func (l login) GoString() string { return l.String() }

// readLogin reads the Secret of a fleet. Problems with it are a provider.Refused.
func readLogin(ctx context.Context, live client.Reader, spec *v1alpha1.OpenStackServers) (*login, error) {
	ref := &spec.Credentials
	where := fmt.Sprintf("Secret %s/%s", ref.Namespace, ref.Name)
	var secret corev1.Secret
	if err := readQuietly(ctx, live, ref.Namespace, ref.Name, &secret); err != nil {
		return nil, unreadable(where, "spec.openStack.credentials", err)
	}
	l, problem := parseLogin(secret.Data, ref.Cloud, spec.Region)
	if problem != "" {
		return nil, &provider.Refused{Reason: v1alpha1.FleetReasonCredentialsRefused, Message: where + ": " + problem}
	}
	l.where = where
	return l, nil
}

// readQuietly reads an object that must not be logged. Clients log all responses at the highest verbosity.
func readQuietly(ctx context.Context, live client.Reader, namespace, name string, object client.Object) error {
	return live.Get(klog.NewContext(ctx, logr.Discard()), types.NamespacedName{Namespace: namespace, Name: name}, object)
}

// unreadable explains an error of reading an object.
func unreadable(what, field string, err error) error {
	switch {
	case apierrors.IsNotFound(err):
		return &provider.Refused{Reason: v1alpha1.FleetReasonObjectMissing, Message: fmt.Sprintf("%s in %s does not exist: create it", what, field)}
	case apierrors.IsForbidden(err):
		return &provider.Refused{Reason: v1alpha1.FleetReasonObjectForbidden, Message: fmt.Sprintf(
			"%s in %s may not be read: move it to namespace supercargo-system, or grant get on it (%v)", what, field, err)}
	}
	return fmt.Errorf("read %s: %w", what, err)
}

// parseLogin reads the entries of a Secret. problem describes what is wrong with them, and contains no values.
func parseLogin(data map[string][]byte, cloud, region string) (l *login, problem string) {
	l = &login{sum: sum(data)}
	switch text, ok := data[keyCloudsYAML]; {
	case ok:
		problem = l.fromClouds(text, cloud, region)
	case len(data[keyAppID]) > 0:
		problem = l.fromApplicationCredential(data, region)
	default:
		problem = fmt.Sprintf("one of %s and %s is required", keyCloudsYAML, keyAppID)
	}
	if problem = cmp.Or(problem, endpointProblem(l.auth.IdentityEndpoint)); problem != "" {
		return nil, problem
	}
	if pem, ok := data[keyCACert]; ok {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, keyCACert + " contains no PEM certificate"
		}
		l.tls.RootCAs = pool
	}
	l.auth.AllowReauth = true
	return l, ""
}

// fromClouds reads a clouds.yaml. It must be self-contained: other files and the environment do not apply to fleets.
func (l *login) fromClouds(text []byte, cloud, region string) string {
	var file struct {
		Clouds map[string]struct {
			Cloud   string `json:"cloud"`
			Profile string `json:"profile"`
			CACert  string `json:"cacert"`
			Cert    string `json:"cert"`
			Verify  *bool  `json:"verify"`
			Auth    struct {
				Token string `json:"token"`
			} `json:"auth"`
		} `json:"clouds"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		return keyCloudsYAML + " is not valid YAML" // the error might quote it
	}
	names := slices.Sorted(maps.Keys(file.Clouds))
	if cloud == "" && len(names) == 1 {
		cloud = names[0]
	}
	c, ok := file.Clouds[cloud]
	switch {
	case cloud == "":
		return fmt.Sprintf("%s has %d clouds %q: select one in spec.openStack.credentials.cloud", keyCloudsYAML, len(names), names)
	case !ok:
		return fmt.Sprintf("%s has no cloud %q of spec.openStack.credentials.cloud, must be one of %q", keyCloudsYAML, cloud, names)
	case c.Cloud+c.Profile != "":
		return fmt.Sprintf("cloud %q refers to a profile: replace it with the settings of the profile", cloud)
	case c.CACert+c.Cert != "":
		return fmt.Sprintf("cloud %q refers to files: put the trusted certificates into the entry %s of the Secret", cloud, keyCACert)
	case c.Verify != nil && !*c.Verify:
		return fmt.Sprintf("cloud %q has verify: false, but certificates are always verified: remove it and put the "+
			"trusted certificates into the entry %s of the Secret", cloud, keyCACert)
	case c.Auth.Token != "":
		return fmt.Sprintf("cloud %q has a token, which cannot be renewed: use an application credential or a password", cloud)
	}
	var err error
	l.auth, l.endpoint, l.tls, err = clouds.Parse(
		clouds.WithCloudsYAML(bytes.NewReader(text)), clouds.WithCloudName(cloud), clouds.WithRegion(region), clouds.WithEndpointType(""))
	if err != nil {
		return fmt.Sprintf("cloud %q of %s is invalid: check that `openstack --os-cloud` accepts it", cloud, keyCloudsYAML)
	}
	l.tls = trusting() // the environment of this process does not apply
	return ""
}

// trusting returns a configuration that verifies certificates by the system's trusted ones.
func trusting() *tls.Config { return &tls.Config{MinVersion: tls.VersionTLS12} }

// endpointProblem describes what is wrong with the URL of Keystone, which messages repeat.
func endpointProblem(text string) string {
	switch u, err := url.Parse(text); {
	case text == "":
		return keyAuthURL + " is required"
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return keyAuthURL + " must be a URL such as https://keystone.example.org/v3"
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return keyAuthURL + " must contain only a host and a path: put the user and the password into separate entries"
	}
	return ""
}

func (l *login) fromApplicationCredential(data map[string][]byte, region string) string {
	if len(data[keyAppSecret]) == 0 {
		return fmt.Sprintf("%s is required with %s", keyAppSecret, keyAppID)
	}
	trimmed := func(key string) string { return string(bytes.TrimSpace(data[key])) }
	l.auth = gophercloud.AuthOptions{
		IdentityEndpoint: trimmed(keyAuthURL), ApplicationCredentialID: trimmed(keyAppID), ApplicationCredentialSecret: trimmed(keyAppSecret),
	}
	l.endpoint = gophercloud.EndpointOpts{Region: cmp.Or(region, trimmed(keyRegion)), Availability: gophercloud.AvailabilityPublic}
	l.tls = trusting()
	return ""
}

// sum returns a digest of the data.
func sum(data map[string][]byte) string {
	h := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(data)) {
		fmt.Fprintf(h, "%q %x\n", key, data[key])
	}
	return hex.EncodeToString(h.Sum(nil))
}
