package answer

import (
	"bytes"
	"encoding/json"
	"testing"
)

// letters is an entry with two fields of any kind.
type letters struct{ A, B json.RawMessage }

func (l *letters) fields() []field { return []field{{"a", &l.A}, {"b", &l.B}} }

// FuzzObject compares the decoding of objects with package json's into a map.
func FuzzObject(f *testing.F) {
	for _, text := range []string{
		`{}`, ` { "a" : 1 , "b":[1,{"a":"]}\""}, -2e5 ] } `, `{"b":"\\","a":true,"c":{"a":7}}`, `{"a":1,"a":[]}`, `{"aa":1,"":2,"a":{}}`, `null`, `7`, `"a"`, `{"a":"\u00e9é"}`, `{"a":null,"b":""}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if !json.Valid(data) || bytes.Contains(data, []byte(`\u00`)) { // names are not escaped like this
			return
		}
		var want map[string]json.RawMessage
		wantErr := json.Unmarshal(data, &want)
		var got letters
		if err := json.Unmarshal(data, newObject(&got)); (err != nil) != (wantErr != nil) {
			t.Fatalf("%s: error %v, want %v", data, err, wantErr)
		}
		for name, value := range map[string]json.RawMessage{"a": got.A, "b": got.B} {
			before := string(want[name])
			if before == "null" || before == `""` {
				before = "" // not stated
			}
			if string(value) != before {
				t.Fatalf("%s: %s is %s, want %s", data, name, value, before)
			}
		}
	})
}
