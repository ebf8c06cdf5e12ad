package v1

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/utils/ptr"
)

// decode reads a KubeSchedulerConfiguration as kube-scheduler does and returns
// the arguments of the plugin named.
func decode(plugin, args string) (any, error) {
	text := "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n" +
		"- schedulerName: s\n  pluginConfig:\n  - name: " + plugin + "\n    args: " + args + "\n"
	obj, _, err := scheme.Codecs.UniversalDecoder().Decode([]byte(text), nil, nil)
	if err != nil {
		return nil, err
	}
	for _, c := range obj.(*schedconfig.KubeSchedulerConfiguration).Profiles[0].PluginConfig {
		if c.Name == plugin {
			return c.Args, nil
		}
	}
	return nil, nil
}

func TestArgumentsAreDecodedAndDefaulted(t *testing.T) {
	minutes := func(n int) metav1.Duration { return metav1.Duration{Duration: time.Duration(n) * time.Minute} }
	tests := []struct {
		name, plugin, args string
		want               any
	}{
		{"BestFit without arguments", "BestFit", "{}", &BestFitArgs{Narrowing: NarrowAuto}},
		{"BestFit with all", "BestFit", "{narrowing: Never}", &BestFitArgs{Narrowing: NarrowNever}},
		{"EnergyPerformance without arguments", "EnergyPerformance", "{}", &EnergyPerformanceArgs{EnergyWeight: ptr.To(0.5), IdlePower: IdlePowerCount}},
		{"EnergyPerformance with all", "EnergyPerformance", "{energyWeight: 0, idlePower: Ignore}", &EnergyPerformanceArgs{EnergyWeight: ptr.To(0.0), IdlePower: IdlePowerIgnore}},
		{"EnergyPerformance with a tariff", "EnergyPerformance", "{tariff: {file: /a.csv, unit: Dollars}}", &EnergyPerformanceArgs{
			EnergyWeight: ptr.To(0.5), IdlePower: IdlePowerCount, Tariff: &EnergyTariff{
				File: "/a.csv", Unit: EnergyDollars, RefreshInterval: metav1.Duration{Duration: time.Minute}, MaxAge: metav1.Duration{Duration: 24 * time.Hour},
			},
		}},
		{"TimeBin without arguments", "TimeBin", "{}", &TimeBinArgs{ScalingCycle: minutes(5), DefaultRuntime: minutes(10), Narrowing: NarrowAuto}},
		{"TimeBin with all", "TimeBin", "{scalingCycle: 1m, defaultRuntime: 2m, narrowing: Never}",
			&TimeBinArgs{ScalingCycle: minutes(1), DefaultRuntime: minutes(2), Narrowing: NarrowNever}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got, err := decode(tc.plugin, tc.args)
			if err != nil {
				t.Fatal(err)
			}
			ignoreKind := cmp.FilterPath(func(p cmp.Path) bool { return strings.HasSuffix(p.String(), "TypeMeta") }, cmp.Ignore())
			if diff := cmp.Diff(tc.want, got, ignoreKind); diff != "" {
				t.Errorf("arguments (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnknownFieldsAndWrongTypesAreRefused(t *testing.T) {
	for _, args := range []string{"{scalingCyle: 1m}", "{scalingCycle: soon}", "{scalingCycle: [1]}", "{narrowing: {a: b}}"} {
		if got, err := decode("TimeBin", args); err == nil || !strings.Contains(err.Error(), "TimeBin") {
			t.Errorf("args %s: decoded to %+v with error %v, want an error that names TimeBin", args, got, err)
		}
	}
}

func TestValidationFindsEverythingWrongAndNamesTheField(t *testing.T) {
	bad := &TimeBinArgs{ScalingCycle: metav1.Duration{Duration: -time.Second}, DefaultRuntime: metav1.Duration{Duration: 1e18}, Narrowing: "Sometimes"}
	errs := ValidateTimeBinArgs(nil, bad)
	for i, field := range []string{"scalingCycle", "defaultRuntime", "narrowing"} {
		if len(errs) != 3 || errs[i].Field != field {
			t.Errorf("errors %v, want one for %s at place %d", errs, field, i)
		}
	}
	if errs := ValidateBestFitArgs(nil, &BestFitArgs{Narrowing: "x"}); len(errs) != 1 || errs[0].Field != "narrowing" {
		t.Errorf("errors %v, want one for narrowing", errs)
	}
	for _, limit := range []time.Duration{time.Second, 24 * time.Hour} {
		good := &TimeBinArgs{ScalingCycle: metav1.Duration{Duration: limit}}
		SetDefaultsTimeBinArgs(good)
		if errs := ValidateTimeBinArgs(nil, good); len(errs) != 0 {
			t.Errorf("a scaling cycle of %v is refused: %v", limit, errs)
		}
	}
	if errs := ValidateTimeBinArgs(nil, &TimeBinArgs{ScalingCycle: metav1.Duration{Duration: 24*time.Hour + 1},
		DefaultRuntime: metav1.Duration{Duration: time.Minute}, Narrowing: NarrowAuto}); len(errs) != 1 {
		t.Errorf("a scaling cycle of over a day: errors %v, want one", errs)
	}
}

func TestWeightsOfEnergyAreFromNoneToAll(t *testing.T) {
	for _, h := range []float64{0, 0.618, 1} {
		if errs := ValidateEnergyPerformanceArgs(nil, &EnergyPerformanceArgs{EnergyWeight: &h, IdlePower: IdlePowerIgnore}); len(errs) != 0 {
			t.Errorf("%v is refused: %v", h, errs)
		}
	}
	for _, h := range []*float64{nil, ptr.To(-0.001), ptr.To(1.001), ptr.To(math.NaN()), ptr.To(math.Inf(1))} {
		errs := ValidateEnergyPerformanceArgs(nil, &EnergyPerformanceArgs{EnergyWeight: h, IdlePower: "Sometimes"})
		if len(errs) != 2 || errs[0].Field != "energyWeight" || errs[1].Field != "idlePower" {
			t.Errorf("errors %v, want one for energyWeight and one for idlePower", errs)
		}
	}
}
