package consolidation

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/energy/tariff"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// zoned returns mixed with node a in the east and node b in the west.
func zoned() []client.Object {
	objects := mixed()
	for _, o := range objects {
		if n, is := o.(*corev1.Node); is {
			n.Labels[corev1.LabelTopologyZone] = map[string]string{"a": "east", "b": "west"}[n.Name]
		}
	}
	return objects
}

// TestPodsMoveByWhatTheirEnergyEmits: node b takes half the energy. If anything is wrong with the
// tariff, only joules count.
func TestPodsMoveByWhatTheirEnergyEmits(t *testing.T) {
	row := func(after time.Duration, zone, grams string) string {
		return fmt.Sprintf("%s,%s,%s\n", noon.Add(after).Format(time.RFC3339), zone, grams)
	}
	moves, stays := map[string]string{"p": "b"}, map[string]string{}
	tests := []struct {
		name, text string
		want       map[string]string
		priced     bool
		says       string // text of the one Event about the tariff, if any
	}{
		{"as dirty", row(0, "east", "300") + row(0, "west", "300"), moves, true, ""},
		{"four times as dirty", row(0, "east", "100") + row(0, "west", "400"), stays, false, ""},
		{"now, but soon clean", row(0, "east", "100") + row(0, "west", "400") + row(5*time.Minute, "west", "1"), moves, true, ""},
		{"expired", row(-30*time.Hour, "east", "100") + row(-30*time.Hour, "west", "400"), moves, false, "Warning TariffExpired"},
		{"other zones", row(0, "north", "100"), moves, false, ""},
		{"garbled", row(0, "east", "much"), moves, false, "Warning TariffInvalid"},
		{"empty", "", moves, false, "Warning TariffUnreadable"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "carbon.csv")
			if tc.text != "" {
				testfile.Write(t, path, "time,zone,grams_per_kwh\n"+tc.text)
			}
			p := newPlay(t, func(c *Config) {
				saving(Act)(c)
				c.Energy.Tariff.File, c.Energy.Tariff.Unit = path, tariff.Grams
				if err := c.Validate(); err != nil {
					t.Fatal(err)
				}
			}, zoned()...)
			p.mover.Profiles = true
			p.run(7 * time.Minute)
			if diff := cmp.Diff(tc.want, p.goes()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got := p.aboutTariff(); len(got) > 1 || strings.Join(got, "") != tc.says {
				t.Errorf("%q is told of the tariff, want %q once", got, tc.says)
			}
			if len(tc.want) == 0 {
				return
			}
			d := p.decision().Energy
			if len(d) != 1 || (d[0].CO2Grams != "") != tc.priced || d[0].Dollars != "" || strings.Contains(d[0].Reason, "g CO2") != tc.priced {
				t.Errorf("%+v, want grams: %v", d, tc.priced)
			}
			if len(d) == 1 && tc.priced {
				if grams, err := strconv.ParseFloat(d[0].CO2Grams, 64); err != nil || grams <= 0 {
					t.Errorf("it saves %q g", d[0].CO2Grams)
				}
			}
		})
	}
}

// aboutTariff returns kind and reason of the Events about the tariff since its last call.
func (p *play) aboutTariff() (events []string) {
	for _, e := range strings.Split(p.said(), "\n") {
		if words := strings.Fields(e); len(words) > 1 && strings.HasPrefix(words[1], "Tariff") {
			events = append(events, words[0]+" "+words[1])
		}
	}
	return events
}

// TestATariffIsToldOfWhenItChanges: once when it becomes unusable, for another reason, or usable
// again. A dry run creates no Events.
func TestATariffIsToldOfWhenItChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "carbon.csv")
	p := newPlay(t, func(c *Config) {
		saving(Observe)(c)
		c.Energy.Tariff.File, c.Energy.Tariff.Unit = path, tariff.Grams
	}, zoned()...)
	p.mover.Profiles = true
	for _, step := range []struct{ name, row, says string }{
		{"it is not there", "-", "Warning TariffUnreadable"},
		{"nor later", "-", ""},
		{"it is there", noon.Format(time.RFC3339) + ",east,300\n", "Normal TariffUsable"},
		{"it is garbled", noon.Format(time.RFC3339) + ",east,much\n", "Warning TariffInvalid"},
		{"it has expired", noon.AddDate(-1, 0, 0).Format(time.RFC3339) + ",east,300\n", "Warning TariffExpired"},
		{"it is renewed", noon.Format(time.RFC3339) + ",east,300\n", "Normal TariffUsable"},
	} {
		if step.row != "-" {
			testfile.Write(t, path, "time,zone,grams_per_kwh\n"+step.row)
		}
		p.run(3 * time.Minute)
		if got := strings.Join(p.aboutTariff(), ", "); got != step.says {
			t.Errorf("%s: %q is told, want %q", step.name, got, step.says)
		}
	}
	p.mover.DryRun = true
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	p.run(3 * time.Minute)
	if got := p.aboutTariff(); len(got) != 0 {
		t.Errorf("%q is told by one that only looks on", got)
	}
}

func TestTariffsThatCannotBeAreRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Tariff)
		says   string
	}{
		"unit": {func(x *Tariff) { x.Unit = "Euros" }, "--energy-tariff-unit"},
		"age":  {func(x *Tariff) { x.MaxAge = time.Second }, "--energy-tariff-max-age"},
	} {
		c := Defaults()
		tc.change(&c.Energy.Tariff)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v, want an error that names %s", name, err, tc.says)
		}
	}
}
