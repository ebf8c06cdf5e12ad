package purchase

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/internal/cluster"
)

// alikeIn returns a flavor in each of the zones, which is alike in all of them.
func alikeIn(name string, cpu, memory, price int64, zones ...string) (all []Flavor) {
	for _, zone := range zones {
		all = append(all, zoned(flavor(name+"-"+zone, cpu, memory, price), zone))
	}
	return all
}

// zonesOf counts the machines of a plan by the zone of their flavor.
func zonesOf(p *Plan, flavors []Flavor) map[string]int {
	counts := map[string]int{}
	for _, m := range p.Machines {
		for i := range flavors {
			if flavors[i].Name == m.Flavor {
				counts[zoneOf(flavors[i].Host)]++
			}
		}
	}
	return counts
}

func TestEqualMachinesAreSpreadOverZones(t *testing.T) {
	c := newDemands()
	alike := alikeIn("m", 10, 10, 10, "a", "b", "c")
	typed := func(f Flavor, name string) Flavor {
		host := *f.Host
		host.Labels = map[string]string{corev1.LabelTopologyZone: host.Labels[corev1.LabelTopologyZone], corev1.LabelInstanceTypeStable: name}
		f.Host = &host
		return f
	}
	for name, tc := range map[string]struct {
		pods    int
		in      string // the zone that the pods require
		flavors []Flavor
		zones   map[string]int
		want    map[string]int
	}{
		"forty machines":                  {pods: 40, flavors: alike, want: map[string]int{"a": 14, "b": 13, "c": 13}},
		"one machine":                     {pods: 1, flavors: alike, want: map[string]int{"a": 1}},
		"beside others":                   {pods: 4, flavors: alike, zones: map[string]int{"a": 3, "b": 1}, want: map[string]int{"b": 2, "c": 2}},
		"beside very many":                {pods: 2, flavors: alike, zones: map[string]int{"a": 30, "b": 30}, want: map[string]int{"c": 2}},
		"pods that require a zone":        {pods: 3, in: "b", flavors: alike, want: map[string]int{"b": 3}},
		"a cheaper zone has all":          {pods: 6, flavors: append(alikeIn("c", 10, 10, 9, "d"), alike...), want: map[string]int{"d": 6}},
		"a zone that has two left":        {pods: 9, flavors: []Flavor{alike[0], atLeft(alike[1], 2), alike[2]}, want: map[string]int{"a": 4, "b": 2, "c": 3}},
		"sizes that differ a little":      {pods: 4, flavors: append(alikeIn("m", 10, 1000, 10, "a"), alikeIn("m", 10, 1010, 10, "b")...), want: map[string]int{"a": 2, "b": 2}},
		"sizes that differ":               {pods: 4, flavors: append(alikeIn("m", 10, 10, 10, "a"), alikeIn("m", 20, 30, 10, "b")...), want: map[string]int{"b": 2}},
		"of one type, whatever the size":  {pods: 4, flavors: []Flavor{typed(zoned(flavor("x", 10, 10, 10), "a"), "t"), typed(zoned(flavor("y", 12, 20, 10), "b"), "t")}, want: map[string]int{"a": 2, "b": 2}},
		"a zone whose machines hold less": {pods: 4, flavors: []Flavor{typed(zoned(flavor("x", 10, 10, 10), "a"), "t"), typed(zoned(flavor("y", 9, 9, 10), "b"), "t")}, want: map[string]int{"a": 4}},
		"without zones":                   {pods: 4, flavors: []Flavor{flavor("x", 10, 10, 10), flavor("y", 10, 10, 10)}, want: map[string]int{"": 4}},
	} {
		t.Run(name, func(t *testing.T) {
			r := Request{Flavors: tc.flavors, Zones: tc.zones}
			for i := range tc.pods {
				p := pod(fmt.Sprintf("p-%02d", i), 10, 10)
				if tc.in != "" {
					p.Demands = c.of("p", inZone(tc.in))
				}
				r.Pods = append(r.Pods, p)
			}
			got := Supercargo(r)
			if diff := cmp.Diff(tc.want, zonesOf(&got.Plan, tc.flavors)); diff != "" {
				t.Errorf("machines by zone (-want +got):\n%s", diff)
			}
			if len(got.Unplaceable) > 0 {
				t.Errorf("left out: %v", got.Unplaceable)
			}
		})
	}
}

// TestSoftSpreadConstraintsChooseZones has machines that hold one pod each, and counts the pods in each zone.
func TestSoftSpreadConstraintsChooseZones(t *testing.T) {
	in := func(zone string, price int64) Flavor { return alikeIn("m", 10, 10, price, zone)[0] }
	for name, tc := range map[string]struct {
		pods    []string // the constraint of each
		flavors []Flavor
		there   map[string]map[string]int // by constraint and zone
		zones   map[string]int            // machines
		limits  cluster.Limits
		want    map[string]int
	}{
		"at 5 % more":                             {pods: []string{"x", "x", "x"}, flavors: []Flavor{in("a", 100), in("b", 105)}, want: map[string]int{"a": 2, "b": 1}},
		"not at 6 % more":                         {pods: []string{"x", "x", "x"}, flavors: []Flavor{in("a", 100), in("b", 106)}, want: map[string]int{"a": 3}},
		"not without a constraint":                {pods: []string{"", "", ""}, flavors: []Flavor{in("a", 100), in("b", 105)}, want: map[string]int{"a": 3}},
		"pods on nodes count":                     {pods: []string{"x"}, flavors: []Flavor{in("a", 100), in("b", 100)}, there: map[string]map[string]int{"x": {"a": 1}}, want: map[string]int{"b": 1}},
		"and more than machines":                  {pods: []string{"x"}, flavors: []Flavor{in("a", 100), in("b", 100)}, there: map[string]map[string]int{"x": {"a": 1}}, zones: map[string]int{"b": 7}, want: map[string]int{"b": 1}},
		"those of other constraints do not":       {pods: []string{"x"}, flavors: []Flavor{in("a", 100), in("b", 105)}, there: map[string]map[string]int{"y": {"a": 9}}, want: map[string]int{"a": 1}},
		"constraints do not see one another":      {pods: []string{"x", "x", "y", "y"}, flavors: []Flavor{in("a", 100), in("b", 105)}, want: map[string]int{"a": 2, "b": 2}},
		"of equal zones that with fewer machines": {pods: []string{"x"}, flavors: []Flavor{in("a", 100), in("b", 100)}, zones: map[string]int{"a": 1}, want: map[string]int{"b": 1}},
		"machines are there already":              {pods: []string{"x"}, flavors: []Flavor{in("a", 100), in("b", 100)}, want: map[string]int{"a": 1}},
		"one is left in the zone":                 {pods: []string{"x", "x", "x", "x"}, flavors: []Flavor{in("a", 100), atLeft(in("b", 105), 1)}, want: map[string]int{"a": 3, "b": 1}},
		"a limit has nothing left":                {pods: []string{"x", "x"}, flavors: []Flavor{in("a", 100), in("b", 105)}, limits: cluster.Limits{MicroDollarsPerHour: new(int64(204))}, want: map[string]int{"a": 2}},
		"a limit has enough left":                 {pods: []string{"x", "x"}, flavors: []Flavor{in("a", 100), in("b", 105)}, limits: cluster.Limits{MicroDollarsPerHour: new(int64(205))}, want: map[string]int{"a": 1, "b": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			r := Request{Flavors: tc.flavors, Spreads: tc.there, Zones: tc.zones, Limits: tc.limits}
			for i, spread := range tc.pods {
				p := pod(fmt.Sprintf("p-%02d", i), 10, 10)
				p.Spread = spread
				r.Pods = append(r.Pods, p)
			}
			got := Supercargo(r)
			if diff := cmp.Diff(tc.want, zonesOf(&got.Plan, tc.flavors)); diff != "" || len(got.Unplaceable) > 0 {
				t.Errorf("machines by zone (-want +got), left out %v:\n%s", got.Unplaceable, diff)
			}
		})
	}
}

// TestSoftSpreadConstraintsCostNoMoreThanTheirShare compares with the plan for the same pods without them.
func TestSoftSpreadConstraintsCostNoMoreThanTheirShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		req := drawRequest(t)
		plain := Supercargo(req)
		soft := req
		soft.Pods = slices.Clone(req.Pods)
		for i := range soft.Pods {
			soft.Pods[i].Spread = rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "spread")
		}
		soft.Spreads = map[string]map[string]int{"x": {"a": rapid.IntRange(0, 3).Draw(t, "pods of x in a")}}
		got := Supercargo(soft)
		checkResult(t, soft, got)
		if most := float64(plain.MicroDollarsPerHour) * (1 + SpreadShare); len(got.Machines) == len(plain.Machines) && float64(got.MicroDollarsPerHour) > most {
			t.Fatalf("it costs %d, at most %v of %d", got.MicroDollarsPerHour, most, plain.MicroDollarsPerHour)
		}
	})
}

func atLeft(f Flavor, n int) Flavor {
	f.Most = &n
	return f
}

// TestNoZoneGetsTwoMachinesMoreThanAnother compares plans with zones with the plan that knows of one zone only.
func TestNoZoneGetsTwoMachinesMoreThanAnother(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		zones := []string{"a", "b", "c", "d"}[:rapid.IntRange(1, 4).Draw(t, "zones")]
		small, large := rapid.Int64Range(1, 20).Draw(t, "small"), rapid.Int64Range(1, 40).Draw(t, "large")
		one := []Flavor{flavor("large", 16, 16, large), flavor("small", 8, 8, small)}
		flavors := append(alikeIn("large", 16, 16, large, zones...), alikeIn("small", 8, 8, small, zones...)...)
		before := map[string]int{}
		for _, zone := range zones {
			before[zone] = rapid.IntRange(0, 3).Draw(t, zone)
		}
		var pods []Pod
		for i := range rapid.IntRange(1, 12).Draw(t, "pods") {
			pods = append(pods, pod(fmt.Sprintf("p-%02d", i), rapid.Int64Range(1, 8).Draw(t, "cpu"), rapid.Int64Range(1, 8).Draw(t, "memory")))
		}
		plain, got := Supercargo(Request{Pods: pods, Flavors: one}), Supercargo(Request{Pods: pods, Flavors: flavors, Zones: before})
		if plain.MicroDollarsPerHour != got.MicroDollarsPerHour || len(plain.Machines) != len(got.Machines) {
			t.Fatalf("%d machines for %d, and in one zone %d for %d", len(got.Machines), got.MicroDollarsPerHour, len(plain.Machines), plain.MicroDollarsPerHour)
		}
		bought := zonesOf(&got.Plan, flavors)
		for _, x := range zones {
			for _, y := range zones {
				if bought[x] > 0 && before[x]+bought[x] > before[y]+bought[y]+1 {
					t.Fatalf("%d machines are bought in zone %s, which then has %d, and zone %s has %d", bought[x], x, before[x]+bought[x], y, before[y]+bought[y])
				}
			}
		}
	})
}
