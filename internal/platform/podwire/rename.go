//go:build !kubernetes1.36

package podwire

import (
	"bytes"

	"google.golang.org/protobuf/encoding/protowire"
)

// Protobuf fields that lead to a pod's gang, as numbered by k8s.io/api and k8s.io/apimachinery.
const (
	unknownTypeMeta = 1 // of runtime.Unknown
	unknownRaw      = 2
	typeMetaKind    = 2  // of runtime.TypeMeta
	listItems       = 2  // of PodList
	podSpec         = 2  // of Pod
	workloadRef     = 42 // of PodSpec, in 1.35
	schedulingGroup = 43 // of PodSpec, from 1.36 on
	eventObject     = 2  // of WatchEvent
	extensionRaw    = 1  // of RawExtension
)

// magic is the prefix of an object in protobuf.
var magic = []byte("k8s\x00")

// renameInObject renumbers the field in a Pod, or in each Pod of a PodList, in place. It does not change other objects
// or malformed ones. Cost: O(fields of the pods and of their specs).
func renameInObject(object []byte) {
	message, ok := bytes.CutPrefix(object, magic)
	if !ok {
		return
	}
	var kind string
	var raw []byte
	each(message, func(number protowire.Number, _, value []byte) {
		switch number {
		case unknownTypeMeta:
			each(value, func(number protowire.Number, _, value []byte) {
				if number == typeMetaKind {
					kind = string(value)
				}
			})
		case unknownRaw:
			raw = value
		}
	})
	switch kind {
	case "Pod":
		renameInPod(raw)
	case "PodList":
		each(raw, func(number protowire.Number, _, value []byte) {
			if number == listItems {
				renameInPod(value)
			}
		})
	}
}

// renameInEvent is renameInObject for the object of a WatchEvent.
func renameInEvent(event []byte) {
	each(event, func(number protowire.Number, _, value []byte) {
		if number != eventObject {
			return
		}
		each(value, func(number protowire.Number, _, value []byte) {
			if number == extensionRaw {
				renameInObject(value)
			}
		})
	})
}

func renameInPod(pod []byte) {
	each(pod, func(number protowire.Number, _, value []byte) {
		if number != podSpec {
			return
		}
		each(value, func(number protowire.Number, tag, _ []byte) {
			if number == schedulingGroup {
				protowire.AppendTag(tag[:0], workloadRef, protowire.BytesType) // the tag keeps its length
			}
		})
	})
}

// each calls do for each field of a message that holds bytes, with its tag and its value, until the message ends or is
// malformed.
func each(message []byte, do func(number protowire.Number, tag, value []byte)) {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return
		}
		tag, rest := message[:n], message[n:]
		length := protowire.ConsumeFieldValue(number, kind, rest)
		if length < 0 {
			return
		}
		if kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(rest)
			do(number, tag, value)
		}
		message = rest[length:]
	}
}
