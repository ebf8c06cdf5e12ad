package adopt

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/internal/input/catalogue"
)

// cloud is a cloud of which lists of prices exist.
type cloud struct {
	// list is the name of its list of prices.
	list string
	// region returns the region of a zone; empty if the zone is none of this cloud.
	region func(zone string) string
	// labels are labels that follow from an instance type, of those by which Karpenter's provider describes it. Others,
	// such as its memory, do not follow from what pods can use.
	labels map[string]func(t *catalogue.Flavor) string
	// naming are the labels whose values name instance types. Types that are bought only on request are bought if one of
	// these allows only certain values.
	naming []string
}

// clouds are the clouds by the API group of their NodeClasses.
var clouds = map[string]cloud{
	"karpenter.k8s.aws": {
		list:   "aws",
		region: func(zone string) string { return awsZone.FindString(zone) },
		labels: map[string]func(*catalogue.Flavor) string{
			"karpenter.k8s.aws/instance-family":     func(t *catalogue.Flavor) string { return familyOf(t.Name) },
			"karpenter.k8s.aws/instance-size":       func(t *catalogue.Flavor) string { return sizeOf(t.Name) },
			"karpenter.k8s.aws/instance-category":   func(t *catalogue.Flavor) string { return group(awsType, t.Name, 1) },
			"karpenter.k8s.aws/instance-generation": func(t *catalogue.Flavor) string { return group(awsType, t.Name, 2) },
			"karpenter.k8s.aws/instance-capability-flex": func(t *catalogue.Flavor) string {
				return strconv.FormatBool(strings.Contains(familyOf(t.Name), "-flex"))
			},
			"karpenter.k8s.aws/instance-cpu": cores,
		},
		naming: []string{"karpenter.k8s.aws/instance-family", "karpenter.k8s.aws/instance-category"},
	},
	"karpenter.azure.com": {
		list:   "azure",
		region: func(zone string) string { return group(numberedZone, zone, 1) },
		labels: map[string]func(*catalogue.Flavor) string{
			"karpenter.azure.com/sku-name":   func(t *catalogue.Flavor) string { return t.Name },
			"karpenter.azure.com/sku-family": func(t *catalogue.Flavor) string { return group(azureType, t.Name, 1) },
			"karpenter.azure.com/sku-cpu":    cores,
			"kubernetes.azure.com/sku-cpu":   cores,
		},
		naming: []string{"karpenter.azure.com/sku-name", "karpenter.azure.com/sku-family"},
	},
	"karpenter.k8s.gcp": {
		list:   "gcp",
		region: func(zone string) string { return group(letteredZone, zone, 1) },
		labels: map[string]func(*catalogue.Flavor) string{
			"karpenter.k8s.gcp/instance-family": func(t *catalogue.Flavor) string { return familyOf(t.Name) },
			"karpenter.k8s.gcp/instance-shape":  func(t *catalogue.Flavor) string { return group(gcpType, t.Name, 2) },
			"karpenter.k8s.gcp/instance-cpu":    cores,
		},
		naming: []string{"karpenter.k8s.gcp/instance-family"},
	},
}

var (
	awsZone      = regexp.MustCompile(`^[a-z]{2}(-[a-z]+)+-[0-9]+`)
	numberedZone = regexp.MustCompile(`^([a-z0-9]+)-[0-9]+$`)
	letteredZone = regexp.MustCompile(`^([a-z]+-[a-z]+[0-9]+)-[a-z]$`)
	// awsType has the category and the generation of an instance type, as in m7i.large and u-6tb1.metal.
	awsType = regexp.MustCompile(`^([a-z]+)(?:-[0-9]+tb)?([0-9]+).*\.`)
	// azureType has the family of an instance type: D of Standard_D2s_v5 and Standard_DC2s_v3.
	azureType   = regexp.MustCompile(`^[A-Za-z]+_([A-Z])[A-Z]*[0-9]`)
	azurePrefix = regexp.MustCompile(`^[A-Za-z]+_[A-Z]+`)
	// gcpType has the family and the shape of an instance type, as in n2-standard-4.
	gcpType = regexp.MustCompile(`^([a-z0-9]+)-([a-z0-9]+)`)
)

func group(of *regexp.Regexp, text string, n int) string {
	if found := of.FindStringSubmatch(text); found != nil {
		return found[n]
	}
	return ""
}

// prefixOf returns how the names of the instance types of a family begin: m7i. of m7i.large, n2- of n2-standard-4, and
// Standard_D of Standard_D2s_v5; empty if names have no such part.
func prefixOf(name string) string {
	for _, separator := range []byte{'.', '-'} {
		if at := strings.IndexByte(name, separator); at > 0 {
			return name[:at+1]
		}
	}
	return azurePrefix.FindString(name)
}

// familyOf returns the family of an instance type of AWS or Google Cloud: m7i of m7i.large.
func familyOf(name string) string { return strings.TrimRight(prefixOf(name), ".-") }

// sizeOf returns the size of an instance type: large of m7i.large; empty if names have none.
func sizeOf(name string) string {
	_, size, _ := strings.Cut(name, ".")
	return size
}

// cores returns the number of CPUs of an instance type. The list has what pods can use: of the CPUs, all managed
// Kubernetes reserves 6 % of the first, 1 % of the second, 0.5 % of two more and 0.25 % of the rest.
func cores(t *catalogue.Flavor) string {
	usable := float64(t.Size.MilliCPU) / 1000
	for n := int(math.Ceil(usable)); float64(n) < usable*1.1+1; n++ {
		reserved := 0.06 + 0.01*min(max(float64(n)-1, 0), 1) + 0.005*min(max(float64(n)-2, 0), 2) + 0.0025*max(float64(n)-4, 0)
		if float64(n)-reserved >= usable-0.005 {
			return strconv.Itoa(n)
		}
	}
	return ""
}

// choice are the instance types that a NodePool may launch, of those with prices.
type choice struct {
	// known are the instance types of the architectures of the fleet, which are the only ones that it buys, and chosen
	// those that may be launched, both ordered.
	known  []catalogue.Flavor
	chosen []string
	// special are those that the requirements allow without naming them, and that a fleet buys only on request.
	special int
	// restricted reports whether a requirement is about instance types.
	restricted bool
}

// choose returns the instance types of some architectures that fulfil all demands which follow from the instance type.
func (c *cloud) choose(known []catalogue.Flavor, all []demand, architectures []string) choice {
	found := choice{}
	named := false
	for i := range all {
		d := &all[i]
		_, derived := c.labels[d.key]
		found.restricted = found.restricted || derived || d.key == corev1.LabelInstanceTypeStable
		named = named || d.listed && (d.key == corev1.LabelInstanceTypeStable || slices.Contains(c.naming, d.key))
	}
	for i := range known {
		t := &known[i]
		if !slices.Contains(architectures, cmp.Or(t.Arch, defaultArchitecture)) {
			continue
		}
		found.known = append(found.known, *t)
		switch fits := c.fits(t, all); {
		case fits && t.Kind != "" && !named:
			found.special++
		case fits:
			found.chosen = append(found.chosen, t.Name)
		}
	}
	return found
}

func (c *cloud) fits(t *catalogue.Flavor, all []demand) bool {
	return !slices.ContainsFunc(all, func(d demand) bool {
		switch label, derived := c.labels[d.key]; {
		case d.key == corev1.LabelInstanceTypeStable:
			return !d.allows(t.Name)
		case derived:
			return !d.allows(label(t))
		}
		return false
	})
}
