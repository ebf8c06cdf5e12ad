package dollars_test

import (
	"encoding/json"
	"testing"

	"supercargo.dev/supercargo/internal/text/dollars"
)

func TestJSONHasAnAmountInDollars(t *testing.T) {
	text, err := json.Marshal(dollars.Amount(290_000))
	if err != nil || string(text) != "0.29" {
		t.Errorf("%s, %v, want 0.29", text, err)
	}
	var a dollars.Amount
	if err := json.Unmarshal([]byte("0.290001"), &a); err != nil || a != 290_001 { // a float is a little less
		t.Errorf("%d, %v, want 290001", a, err)
	}
	if err := json.Unmarshal([]byte(`"much"`), &a); err == nil {
		t.Error("a text is an amount")
	}
}
