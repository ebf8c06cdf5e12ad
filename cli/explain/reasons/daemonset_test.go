package reasons

import (
	"regexp"
	"slices"
	"testing"
)

// elsewhere matches advice that nobody can follow for a pod of a DaemonSet, whose node is given.
var elsewhere = regexp.MustCompile(`\b(nodes|(other|another|larger) node|node affinity|nodeSelector|same domain and)\b`)

func TestAPodOfADaemonSetIsAdvisedAboutItsNodeOnly(t *testing.T) {
	for i := range table {
		e := &table[i]
		got, is := OfDaemonSet("running a plugin: 1 " + e.text + " of something")
		if at := elsewhere.FindString(got.Helps); at != "" && e.text != "didn't match pod affinity rules" {
			t.Errorf("against %q it advises %q, about %q", e.text, got.Helps, at)
		}
		if is && got.Plugin != e.Plugin {
			t.Errorf("against %q it names plugin %s, want %s", e.text, got.Plugin, e.Plugin)
		}
	}
	for message, want := range map[string]string{
		"Insufficient memory":                                   "fewer other pods on its node, a higher priority than theirs (priorityClassName in the DaemonSet), or lower requests in the DaemonSet",
		"node(s) had untolerated taint {dedicated: db}":         "a toleration in the DaemonSet, or the removal of the taint from its node",
		"node(s) didn't satisfy plugin(s) [NodeAffinity]":       "", // these are the nodes that it is not for
		"node(s) didn't match Pod's node affinity/selector":     "",
		"something of another scheduler":                        "",
		"persistentvolumeclaim \"data\" is being deleted":       existingClaim, // as for any pod
		"node(s) were not the one that receives the checkpoint": "",
	} {
		if got, is := OfDaemonSet(message); got.Helps != want || is != (want != "") {
			t.Errorf("against %q it advises %q (%t), want %q", message, got.Helps, is, want)
		}
	}
}

func TestEachAnswerForADaemonSetReplacesOneOfTheTable(t *testing.T) {
	for text, helps := range onItsNode {
		at := slices.IndexFunc(table, func(e entry) bool { return e.text == text })
		if at < 0 || table[at].Helps == helps {
			t.Errorf("the answer to %q replaces none, or the same one", text)
		}
	}
}
