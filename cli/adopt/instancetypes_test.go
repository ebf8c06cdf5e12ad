package adopt

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"supercargo.dev/supercargo/autoscaler/fleet/pricelist"
	"supercargo.dev/supercargo/internal/input/catalogue"
)

// listed returns the instance types of a list of prices.
func listed(t testing.TB, list, region string) []catalogue.Flavor {
	t.Helper()
	all, err := pricelist.Read(list, region)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestLabelsFollowFromInstanceTypes has labels as Karpenter's providers document them or set them on nodes.
func TestLabelsFollowFromInstanceTypes(t *testing.T) {
	const aws, azure, gcp = "karpenter.k8s.aws", "karpenter.azure.com", "karpenter.k8s.gcp"
	regions := map[string][2]string{aws: {"aws", "us-east-1"}, azure: {"azure", "eastus"}, gcp: {"gcp", "us-central1"}}
	for _, tc := range []struct{ group, name, label, want string }{
		{aws, "m7i.large", aws + "/instance-family", "m7i"},
		{aws, "m7i.large", aws + "/instance-size", "large"},
		{aws, "m7i.large", aws + "/instance-category", "m"},
		{aws, "m7i.large", aws + "/instance-generation", "7"},
		{aws, "m7i.large", aws + "/instance-cpu", "2"},
		{aws, "m7i.large", aws + "/instance-capability-flex", "false"},
		{aws, "c7i-flex.large", aws + "/instance-capability-flex", "true"},
		{aws, "c7i-flex.large", aws + "/instance-family", "c7i-flex"},
		{aws, "u-6tb1.112xlarge", aws + "/instance-category", "u"},
		{aws, "u-6tb1.112xlarge", aws + "/instance-generation", "1"},
		{aws, "u-6tb1.112xlarge", aws + "/instance-cpu", "448"},
		{aws, "hpc7g.16xlarge", aws + "/instance-category", "hpc"},
		{azure, "Standard_D2s_v5", azure + "/sku-family", "D"},
		{azure, "Standard_DC2s_v2", azure + "/sku-family", "D"},
		{azure, "Standard_D2s_v5", azure + "/sku-name", "Standard_D2s_v5"},
		{azure, "Standard_D2s_v5", azure + "/sku-cpu", "2"},
		{azure, "Standard_E64s_v4", azure + "/sku-cpu", "64"},
		{azure, "Standard_D64s_v5", "kubernetes.azure.com/sku-cpu", "64"},
		{gcp, "n2-standard-4", gcp + "/instance-family", "n2"},
		{gcp, "n2-standard-4", gcp + "/instance-shape", "standard"},
		{gcp, "n2-highmem-128", gcp + "/instance-cpu", "128"},
	} {
		all := listed(t, regions[tc.group][0], regions[tc.group][1])
		at := slices.IndexFunc(all, func(f catalogue.Flavor) bool { return f.Name == tc.name })
		if at < 0 {
			t.Errorf("the list has no %s", tc.name)
		} else if got := clouds[tc.group].labels[tc.label](&all[at]); got != tc.want {
			t.Errorf("%s of %s is %q, want %q", tc.label, tc.name, got, tc.want)
		}
	}
}

// TestCPUsAreThoseInTheNames: the names of Google Cloud's types have their number of CPUs.
func TestCPUsAreThoseInTheNames(t *testing.T) {
	seen := 0
	all := listed(t, "gcp", "us-central1")
	for i := range all {
		if parts := strings.Split(all[i].Name, "-"); len(parts) == 3 && all[i].Kind == "" {
			if seen++; cores(&all[i]) != parts[2] {
				t.Errorf("%s has %s CPUs", all[i].Name, cores(&all[i]))
			}
		}
	}
	if seen < 100 {
		t.Errorf("only %d types were compared", seen)
	}
}

func TestRegionsFollowFromZones(t *testing.T) {
	for _, tc := range []struct{ group, zone, want string }{
		{"karpenter.k8s.aws", "us-east-1a", "us-east-1"},
		{"karpenter.k8s.aws", "us-west-2-lax-1a", "us-west-2"},
		{"karpenter.k8s.aws", "us-gov-west-1b", "us-gov-west-1"},
		{"karpenter.k8s.aws", "eastus-1", ""},
		{"karpenter.azure.com", "eastus-1", "eastus"},
		{"karpenter.azure.com", "0", ""},
		{"karpenter.k8s.gcp", "us-central1-a", "us-central1"},
		{"karpenter.k8s.gcp", "us-central1", ""},
	} {
		if got := clouds[tc.group].region(tc.zone); got != tc.want {
			t.Errorf("zone %s of %s is in region %q, want %q", tc.zone, tc.group, got, tc.want)
		}
	}
}

// TestInstanceTypesAreThoseThatFulfilTheRequirements compares patterns with the labels of each type.
func TestInstanceTypesAreThoseThatFulfilTheRequirements(t *testing.T) {
	const p = "karpenter.k8s.aws/instance-"
	for _, tc := range []struct {
		name string
		of   []string
		arch []string
		want []string
	}{
		{"families of a category and a generation", []string{p + "category In c,m,r", p + "generation Gt 2"}, []string{"amd64"}, []string{"c*", "m*", "r*", "!c1.*", "!m1.*", "!m2.*"}},
		{"both architectures", []string{p + "category In c", p + "generation Gt 5"}, []string{"amd64", "arm64"}, []string{"c*", "!c1.*", "!c3.*", "!c4.*", "!c5.*", "!c5a.*", "!c5ad.*", "!c5d.*", "!c5n.*"}},
		{"families", []string{p + "family In m7i,c7i"}, []string{"amd64"}, []string{"c7i.*", "m7i.*"}},
		{"a burstable family that is named", []string{p + "family In t3"}, []string{"amd64"}, []string{"t3.*"}},
		{"a size", []string{p + "family In m7i", p + "size In large,xlarge"}, []string{"amd64"}, []string{"m7i.large", "m7i.xlarge"}},
		{"names", []string{"node.kubernetes.io/instance-type In m7i.large,c7i.large"}, []string{"amd64"}, []string{"c7i.large", "m7i.large"}},
		{"without a name", []string{p + "family In m7i", "node.kubernetes.io/instance-type NotIn m7i.large"}, []string{"amd64"}, []string{"m7i.*", "!m7i.large"}},
		{"without metal", []string{p + "family In m7i,c7i,r7i", p + "size NotIn metal-24xl,metal-48xl"}, []string{"amd64"}, []string{"c7i.*", "m7i.*", "r7i.*", "!*.metal-24xl", "!*.metal-48xl"}},
		{"what a fleet chooses anyway", []string{p + "size Exists"}, []string{"amd64"}, nil},
	} {
		all, err := demands(reqs(tc.of...))
		if err != nil {
			t.Fatal(err)
		}
		of := clouds["karpenter.k8s.aws"]
		found := of.choose(listed(t, "aws", "us-east-1"), all, tc.arch)
		got, ok := patterns(found.known, found.chosen)
		if diff := cmp.Diff(tc.want, got); diff != "" || !ok {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

// TestPatternsChooseExactlyWhatIsChosen with random choices of whole families, sizes and single types.
func TestPatternsChooseExactlyWhatIsChosen(t *testing.T) {
	lists := [][]catalogue.Flavor{listed(t, "aws", "us-east-1"), listed(t, "azure", "eastus"), listed(t, "gcp", "us-central1")}
	longest := 0
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 0))
		known := lists[r.IntN(len(lists))]
		families, sizes, single := map[string]bool{}, map[string]bool{}, r.Float64()*0.1
		share, kept := r.Float64(), r.Float64()
		var chosen []string
		for i := range known {
			name := known[i].Name
			for of, in := range map[string]map[string]bool{prefixOf(name): families, sizeOf(name): sizes} {
				if _, decided := in[of]; !decided {
					in[of] = r.Float64() < map[bool]float64{true: share, false: kept}[of == prefixOf(name)]
				}
			}
			if families[prefixOf(name)] && sizes[sizeOf(name)] || r.Float64() < single {
				chosen = append(chosen, name)
			}
		}
		got, ok := patterns(known, chosen)
		if !ok && len(chosen) > 0 && len(chosen) <= mostPatterns {
			t.Fatalf("seed %d: no patterns for %d types", seed, len(chosen))
		}
		found, _ := catalogue.Choose(got, known)
		if names := namesOf(found, nil); ok && !slices.Equal(names, chosen) {
			t.Fatalf("seed %d: %d patterns choose %d types, want %d", seed, len(got), len(names), len(chosen))
		}
		longest = max(longest, len(got))
	}
	t.Logf("at most %d patterns", longest)
}
