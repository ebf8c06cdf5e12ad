package openstack

import (
	"regexp"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"pgregory.net/rapid"
)

func TestTagsSayTheValueUnlessNovaWouldNotTakeIt(t *testing.T) {
	longest := strings.Repeat("x", maxTag-len(tagFleet)-len("="))
	tests := []struct {
		name, value string
		plain       bool
	}{
		{"a plain value", "batch", true},
		{"a flavor in a zone", "m1.large@nova", true},
		{"none", "", true},
		{"as long as a tag may be", longest, true},
		{"one longer", longest + "x", false},
		{"a slash", "a/b", false},
		{"a comma", "a,b", false},
		{"a blank", "a b", false},
		{"a letter beyond ASCII", "größe", false},
	}
	digest := regexp.MustCompile("^supercargo-fleet=[0-9a-f]{32}$")
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got := tag(tagFleet, tc.value)
			if tc.plain && got != "supercargo-fleet="+tc.value || !tc.plain && !digest.MatchString(got) {
				t.Errorf("tag of %q is %q", tc.value, got)
			}
		})
	}
}

func TestTagsAreSuchAsNovaTakesAndTellValuesApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.String().Draw(t, "a"), rapid.String().Draw(t, "b")
		for _, key := range []string{tagCluster, tagFleet, tagIntent, tagFlavor, tagOrdinal} {
			got := tag(key, a)
			if len(got) > maxTag || strings.ContainsAny(got, ",/ ") || !strings.HasPrefix(got, key+"=") {
				t.Fatalf("tag of %q is %q", a, got)
			}
			if (tag(key, b) == got) != (a == b) {
				t.Fatalf("%q and %q have tags %q and %q", a, b, got, tag(key, b))
			}
		}
	})
}

func TestTagsAreFoundOnAServer(t *testing.T) {
	s := &servers.Server{Tags: &[]string{"mine", "supercargo-fleet=batch", "supercargo-intent=a=b"}}
	if !hasTag(s, tag(tagFleet, "batch")) || hasTag(s, tag(tagFleet, "bat")) || hasTag(&servers.Server{}, "mine") {
		t.Error("a server has a tag if it is among its tags as it is")
	}
	for key, want := range map[string]string{tagFleet: "batch", tagIntent: "a=b", tagOrdinal: ""} {
		if got := tagValue(s, key); got != want {
			t.Errorf("value of %s is %q, want %q", key, got, want)
		}
	}
	if got := tagValue(&servers.Server{}, tagFleet); got != "" {
		t.Errorf("value on a server without tags is %q", got)
	}
}

func TestServersOfOneOrderHaveNamesOfTheirOwnThatNodesCanHave(t *testing.T) {
	tests := []struct {
		name, fleet string
		ordinal     int
		want        string
	}{
		{"a short name stays", "batch", 0, "batch-"},
		{"a dot does not", "team.batch", 12, "team-batch-"},
		{"a long name is cut", strings.Repeat("a", 50), 3, strings.Repeat("a", 40) + "-"},
		{"and does not end in a dash", strings.Repeat("a", 39) + ".b", 3, strings.Repeat("a", 39) + "-"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got := serverName(tc.fleet, "intent", "m1.large@nova", tc.ordinal)
			digest, ok := strings.CutPrefix(got, tc.want)
			if !ok || len(got) > 63 || strings.Count(digest, "-") != 1 {
				t.Errorf("name is %q", got)
			}
			for other, name := range map[string]string{
				"intent": serverName(tc.fleet, "other", "m1.large@nova", tc.ordinal), "flavor": serverName(tc.fleet, "intent", "m1.large", tc.ordinal),
				"ordinal": serverName(tc.fleet, "intent", "m1.large@nova", tc.ordinal+1),
			} {
				if name == got {
					t.Errorf("another %s has the same name", other)
				}
			}
			if again := serverName(tc.fleet, "intent", "m1.large@nova", tc.ordinal); again != got {
				t.Errorf("names are %q and %q", got, again)
			}
		})
	}
}
