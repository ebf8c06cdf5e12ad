package profile

import (
	"testing"

	"supercargo.dev/supercargo/energy"
)

func TestThePowerOfAMachineIsStatedElseThatOfItsTypeElseThatOfItsCores(t *testing.T) {
	stated := StatedPower{"mine": {Idle: 1, Full: 2}}
	listed, _ := energy.BuiltIn().MachineType("m5.large")
	cores, _ := energy.BuiltIn().CPUs("", "", 7)
	for machineType, want := range map[string]energy.Model{"mine": {Idle: 1, Full: 2}, "m5.large": listed, "unheard-of": cores} {
		if got := stated.Of(machineType, 7); got.Idle != want.Idle || got.Full != want.Full {
			t.Errorf("%s: %+v, want %+v", machineType, got, want)
		}
	}
	if _, known := stated.OfType("unheard-of"); known {
		t.Error("an unknown type is known")
	}
}
