package fleet

// A fleet lets
// go of its machines.
type fleet struct {
	giveBack int `json:"goesOn"`
}

func (f *fleet) tell(told int) string { return "the machine is dearer" }

func TestItGoesOn() {}
