package answer

import (
	"bytes"
	"fmt"
	"testing"
)

// BenchmarkRead decodes an answer with 100,000 tasks.
func BenchmarkRead(b *testing.B) {
	text := bytes.NewBufferString("[")
	for i := range 100_000 {
		if i > 0 {
			text.WriteByte(',')
		}
		fmt.Fprintf(text, `{"priority":"0","disk":10,"memory":100,"gpus":-1,"cores":1,"command":"sleep 25; echo %d > o4","category":"split","state":"WAITING","taskid":%d}`, i, i)
	}
	text.WriteByte(']')
	b.SetBytes(int64(text.Len()))
	b.ReportAllocs()
	for b.Loop() {
		if list, err := Read[Task](text.Bytes()); err != nil || len(list) != 100_000 {
			b.Fatalf("%d tasks, %v", len(list), err)
		}
	}
}
