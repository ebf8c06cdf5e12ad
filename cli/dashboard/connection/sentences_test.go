package connection

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"supercargo.dev/supercargo/test/kit/sentences"
)

// TestEachSentenceAboutTheConnectionIsSaidOnlyWhereItIsTrue has each sentence of this package with an observation for
// which it is true, and a near one for which it is not.
func TestEachSentenceAboutTheConnectionIsSaidOnlyWhereItIsTrue(t *testing.T) {
	said := func(o *Observation) string {
		text, err := json.Marshal(Of(o))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	now := after(time.Hour)
	at := func(change ...func(*Observation)) string { return said(healthy(now, change...)) }
	of := func(i int, list, watch FailureKind) func(*Observation) {
		return kind(i, func(k *Kind) {
			k.List, k.Watch, k.Broken = Failure{list, "x"}, Failure{watch, "x"}, noon
		})
	}
	unread := kind(fleets, func(k *Kind) { k.Read = false })
	live := at()
	lost, lostUnread := at(fails(Unanswering, time.Hour)), at(unreadKinds, fails(Unanswering, time.Hour))
	failed := func(err error) string { return Failed(&url.Error{Op: "Get", URL: "https://s", Err: err}).Words }
	odd := failed(errors.New("odd"))
	cases := []sentences.Case{
		{"live, incomplete", at(of(fleets, Forbidden, 0)), live},
		{"%s could not be read (%s): %s", at(unread, of(fleets, OtherFailure, 0)), at(of(fleets, OtherFailure, 0))},
		{"the page has an earlier state of ", at(of(fleets, Forbidden, 0)), at(unread, of(fleets, Forbidden, 0))},
		{"the page lacks ", at(unread, of(fleets, Forbidden, 0)), at(of(fleets, Forbidden, 0))},
		{"the API server no longer accepts the credentials to %s %s", at(of(fleets, Unauthorized, 0)), at(of(fleets, Forbidden, 0))},
		{"permission missing: you may not %s %s", at(of(fleets, 0, Forbidden)), at(of(fleets, 0, Unauthorized))},
		{"The page continues by itself once it answers.", lost, live},
		{"The API server at %s %s.", lost, at(fails(NotReady, 0), of(pods, Forbidden, 0))},
		{"%s Nothing is known about the cluster. %s %s", lostUnread, lost},
		{"unreachable since ", lost, lostUnread},
		{"%s The figures are from %s. %s %s", lost, lostUnread},
		{"Check certificate-authority-data of the cluster in the kubeconfig.", at(fails(Untrusted, time.Hour)), lost},
		{"Check the user of the kubeconfig, and log in again.", at(fails(NoCredentials, time.Hour)), lost},
		{"Check that the cluster runs, that your network reaches it, and that --kubeconfig and --context select it.", lost, at(fails(Untrusted, time.Hour))},
		{"permission missing", at(of(pods, Forbidden, 0)), live},
		{"Nothing is known about the cluster.", at(unreadKinds, of(pods, Forbidden, 0)), at(of(pods, Forbidden, 0))},
		{"permission missing since ", at(of(pods, Forbidden, 0)), at(unreadKinds, of(pods, Forbidden, 0))},
		{"The figures are from %s.", at(of(pods, Forbidden, 0)), at(unreadKinds, of(pods, Forbidden, 0))},
		{"Ask an administrator of the cluster for permission to list and watch %s.", at(of(pods, Forbidden, 0)), at(of(pods, Unauthorized, 0))},
		{"Log in again, and restart the dashboard if it does not continue.", at(of(pods, Unauthorized, 0)), at(of(pods, Forbidden, 0))},
		{"Not known: %s were not read.", at(unread), at(of(fleets, Forbidden, 0))},
		{"Not known: %s may no longer be read.", at(of(fleets, Forbidden, 0)), at(unread, of(fleets, Forbidden, 0))},
		{"There are none in the cluster.", live, at(of(fleets, Forbidden, 0))},
		{"There are none in the cluster.", at(unread, of(fleets, NotInstalled, 0)), at(unread)},
		{"There were none in the cluster at ", live, at(unread)},
		{"The API server at %s %s. Nothing is known about the cluster. %s", at(unreadKinds, fails(NotReady, 0)), at(fails(NotReady, 0))},
		{"The API server at %s answers, but %s could not be read: %s. Nothing is known about the cluster. The page tries again.", at(unreadKinds, of(pods, OtherFailure, 0)), at(unreadKinds)},
		{"Connecting to the API server at %s.", at(unreadKinds, never), at(unreadKinds)},
		{"stale since ", at(fails(NotReady, 0)), live},
		{"The API server at %s %s. The figures may be from %s. %s", at(fails(NotReady, 0)), at(of(pods, 0, OtherFailure))},
		{"The API server at %s answers, but has not said what has become of %s%s. They are shown as of %s. The page tries again by itself.", at(of(pods, 0, OtherFailure)), at(fails(NotReady, 0))},
		{"not updated", Ended(time.Time{}).Label, Ended(noon).Label},
		{"The dashboard no longer reads this cluster.", Ended(noon).Line, live},
		{" The figures are from ", Ended(noon).Line, Ended(time.Time{}).Line},
		{"answers that it is not ready (HTTP status %d)", Probed(503, errors.New("x")).Words, Probed(403, errors.New("x")).Words},
		{"refuses connections", failed(syscall.ECONNREFUSED), odd},
		{"has a host name that cannot be resolved", failed(&net.DNSError{}), odd},
		{"has a certificate that the kubeconfig does not trust", failed(x509.UnknownAuthorityError{}), odd},
		{"does not use HTTPS, as the kubeconfig says it does", failed(errors.New("server gave HTTP response to HTTPS client")), odd},
		{"cannot be asked without credentials, which the kubeconfig's program did not give: ", failed(errors.New("getting credentials: x")), odd},
		{"cannot be reached from this network", failed(syscall.EHOSTUNREACH), odd},
		{"closes connections", failed(errors.New("EOF")), odd},
		{"gives no answer: ", odd, failed(errors.New("EOF"))},
	}
	exempt := map[string]string{}
	for text := range sentences.In(t, "failure.go") {
		switch {
		case strings.HasPrefix(text, "refuses it"), strings.HasPrefix(text, "does not "), strings.HasPrefix(text, "answers: "):
			exempt[text] = "TestFailuresAreSaidInPlainWords has it by its kind"
		case failed(fmt.Errorf("x %s y", text)) != "gives no answer: x "+text+" y":
			exempt[text] = "it matches the text of an error"
		}
	}
	for _, c := range cases {
		delete(exempt, c[0])
	}
	sentences.Check(t, []string{"*.go"}, cases, exempt)
}
