package data

import (
	"strings"
	"testing"

	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/internal/input/trace"
)

func TestOpenbPodsAreThoseOfTheRule(t *testing.T) {
	pods, err := trace.ReadPods("openb/pods.csv", strings.NewReader(OpenbPods))
	if err != nil {
		t.Fatal(err)
	}
	if len(pods) != 1200 {
		t.Errorf("%d pods, want 1200", len(pods))
	}
	if span := pods[len(pods)-1].Arrival - pods[0].Arrival; span.Seconds() != 743_719 {
		t.Errorf("the arrivals span %s, want 743719 s", span)
	}
	batch := 0
	for _, p := range pods {
		if p.Size.MilliCPU > 8000 || p.Size.MemoryBytes > 64<<30 {
			t.Errorf("%s is larger than the rule allows", p.Name)
		}
		if p.Class == class.Batch {
			batch++
		}
	}
	if batch != 1049 {
		t.Errorf("%d batch pods, want 1049", batch)
	}
}

func TestEveryPodFitsAFlavor(t *testing.T) {
	pods, err := trace.ReadPods("openb/pods.csv", strings.NewReader(OpenbPods))
	if err != nil {
		t.Fatal(err)
	}
	flavors, err := catalogue.ReadFlavors("aws/flavors.csv", strings.NewReader(AWSFlavors))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods {
		fits := 0
		for _, f := range flavors {
			if p.Size.MilliCPU <= f.Size.MilliCPU && p.Size.MemoryBytes <= f.Size.MemoryBytes {
				fits++
			}
		}
		if fits < 2 {
			t.Errorf("%s fits %d flavors, want several", p.Name, fits)
		}
	}
}
