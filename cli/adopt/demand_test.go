package adopt

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// req returns a requirement from text such as "cpu In 2,4".
func req(text string) requirement {
	f := strings.Fields(text)
	r := requirement{Key: f[0], Operator: f[1]}
	if len(f) > 2 {
		r.Values = strings.Split(f[2], ",")
	}
	return r
}

func reqs(texts ...string) (all []requirement) {
	for _, text := range texts {
		all = append(all, req(text))
	}
	return all
}

func TestRequirementsOnOneLabelBecomeOne(t *testing.T) {
	for _, tc := range []struct {
		of   []string
		want string // empty if there is no such requirement
	}{
		{[]string{"k In a,b"}, "k In a,b"},
		{[]string{"k In b,a,b"}, "k In b,a"},
		{[]string{"k In a,b,c", "k In c,b"}, "k In b,c"},
		{[]string{"k In a,b", "k NotIn a"}, "k In b"},
		{[]string{"k NotIn a", "k In a,b"}, "k In b"},
		{[]string{"k In a", "k Exists"}, "k In a"},
		{[]string{"k NotIn a", "k NotIn b,a"}, "k NotIn a,b"},
		{[]string{"k Exists"}, "k Exists"},
		{[]string{"k DoesNotExist"}, "k DoesNotExist"},
		{[]string{"k Gt 2"}, "k Gt 2"},
		{[]string{"k Gte 3"}, "k Gt 2"},
		{[]string{"k Gte 0"}, "k Exists"},
		{[]string{"k Lt 8"}, "k Lt 8"},
		{[]string{"k Lte 7"}, "k Lt 8"},
		{[]string{"k Gt 2", "k Gt 4"}, "k Gt 4"},
		{[]string{"k Lt 9", "k Lte 4"}, "k Lt 5"},
		{[]string{"k Gt 2", "k Lt 6"}, "k In 3,4,5"},
		{[]string{"k Gt 2", "k Lt 6", "k NotIn 4"}, "k In 3,5"},
		{[]string{"k In 1,4,x", "k Gt 2"}, "k In 4"},
		{[]string{"k Gte 0", "k Lte 99"}, "k In " + numbers(0, 99)},
		{[]string{"k Gte 0", "k Lte 100"}, ""}, // more values than a requirement may have
		{[]string{"k Gt 2", "k NotIn 4"}, ""},
		{[]string{"k In " + numbers(0, 100)}, ""},
	} {
		all, err := demands(reqs(tc.of...))
		if err != nil || len(all) != 1 {
			t.Fatalf("%q: %d demands (%v)", tc.of, len(all), err)
		}
		got := ""
		if r, ok := all[0].requirement(); ok {
			got = strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Key, r.Operator, strings.Join(r.Values, ",")))
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tc.of, diff)
		}
	}
}

func numbers(from, to int) string {
	var all []string
	for n := from; n <= to; n++ {
		all = append(all, strconv.Itoa(n))
	}
	return strings.Join(all, ",")
}

func TestRequirementsThatAllowNothingAreFound(t *testing.T) {
	for _, of := range [][]string{{"k In a", "k In b"}, {"k In a", "k NotIn a"}, {"k Gt 4", "k Lt 5"}, {"k Lt 0"}, {"k In a", "k Gt 1"}} {
		all, err := demands(reqs(of...))
		if err != nil {
			t.Fatal(err)
		}
		if !all[0].nothing() {
			t.Errorf("%q allows %+v, want nothing", of, all[0])
		}
	}
	all, err := demands(reqs("k DoesNotExist"))
	if err != nil || all[0].nothing() || all[0].allows("a") {
		t.Errorf("DoesNotExist is %+v (%v), want it to allow nodes without the label only", all[0], err)
	}
}

func TestInvalidRequirementsAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"k In":            "values: must have at least one value with operator In",
		"k NotIn":         "values: must have at least one value with operator NotIn",
		"k Exists a":      "values: must be empty with operator Exists",
		"k Gt":            "values: must have one value with operator Gt",
		"k Lt 1,2":        "values: must have one value with operator Lt",
		"k Gt x":          `values: "x" is not a number from 0 to 2147483647`,
		"k Gte -1":        `values: "-1" is not a number from 0 to 2147483647`,
		"k Lt 2147483648": `values: "2147483648" is not a number`,
		"k Is a":          `operator: "Is" must be In, NotIn, Exists, DoesNotExist, Gt, Gte, Lt or Lte`,
	} {
		_, err := demands(reqs("a Exists", text))
		if err == nil || !strings.HasPrefix(err.Error(), "spec.template.spec.requirements[1]: k: "+want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// meets is what Kubernetes and Karpenter say about a value and a requirement; it is not derived from demands.
func meets(operator string, values []string, value string) bool {
	n, err := strconv.Atoi(value)
	switch operator {
	case "In":
		return slices.Contains(values, value)
	case "NotIn":
		return !slices.Contains(values, value)
	case "Exists":
		return true
	case "DoesNotExist":
		return false
	}
	bound, _ := strconv.Atoi(values[0])
	return err == nil && map[string]bool{"Gt": n > bound, "Gte": n >= bound, "Lt": n < bound, "Lte": n <= bound}[operator]
}

// TestWhatACombinedRequirementAllowsIsWhatAllOfThemAllow compares with each requirement by itself.
func TestWhatACombinedRequirementAllowsIsWhatAllOfThemAllow(t *testing.T) {
	operators := []string{"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Gte", "Lt", "Lte"}
	values := strings.Split("0,1,2,3,4,5,6,7,8,9,10,11,a,b", ",")
	converted := 0
	for seed := range uint64(4000) {
		r := rand.New(rand.NewPCG(seed, 0))
		var all []requirement
		for range 1 + r.IntN(3) {
			q := requirement{Key: "k", Operator: operators[r.IntN(len(operators))]}
			switch q.Operator {
			case "In", "NotIn":
				for range 1 + r.IntN(6) {
					q.Values = append(q.Values, values[r.IntN(len(values))])
				}
			case "Exists", "DoesNotExist":
			default:
				q.Values = []string{strconv.Itoa(r.IntN(12))}
			}
			all = append(all, q)
		}
		combined, err := demands(all)
		if err != nil {
			t.Fatal(err)
		}
		d := combined[0]
		to, ok := d.requirement()
		if ok {
			converted++
		}
		for _, v := range values {
			want := !slices.ContainsFunc(all, func(q requirement) bool { return !meets(q.Operator, q.Values, v) })
			if d.allows(v) != want {
				t.Fatalf("seed %d: %v: %s is allowed: %v, want %v", seed, all, v, d.allows(v), want)
			}
			if ok && !exempt(to, v) && meets(string(to.Operator), to.Values, v) != want {
				t.Fatalf("seed %d: %v become %v, which allows %s: %v, want %v", seed, all, to, v, !want, want)
			}
		}
	}
	if converted < 3000 {
		t.Errorf("only %d of 4000 are converted", converted)
	}
}

// exempt reports whether a value is none of a label that has numbers: Exists stands for numbers from 0 on.
func exempt(r v1alpha1.KarpenterRequirement, value string) bool {
	_, err := strconv.Atoi(value)
	return err != nil && r.Operator == corev1.NodeSelectorOpExists
}
