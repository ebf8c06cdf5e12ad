package trace

import (
	"bytes"
	"fmt"
	"testing"
)

// benchRows is the number of rows of the whole openb pod list.
const benchRows = 8152

func BenchmarkReadPods(b *testing.B) {
	var openb, generic bytes.Buffer
	openb.WriteString(openbHeader)
	generic.WriteString("name," + genericHeader)
	for i := range benchRows {
		fmt.Fprintf(&openb, "openb-pod-%04d,11300,49152,1,1000,V100M16|V100M32,LS,Running,%d,%d,%d\n", i, i*1583, i*1583+540, i*1583+2)
		fmt.Fprintf(&generic, "openb-pod-%04d,%d,11300,49152.5,540.25\n", i, i*1583)
	}
	for name, input := range map[string][]byte{"openb": openb.Bytes(), "generic": generic.Bytes()} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(input)))
			for b.Loop() {
				if _, err := ReadPods("t.csv", bytes.NewReader(input)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
