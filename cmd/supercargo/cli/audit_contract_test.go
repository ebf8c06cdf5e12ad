package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"supercargo.dev/supercargo/cmd/internal/command"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// auditContract are the fields of the JSON of an audit that scripts outside of this project read, with the kind of each
// value. [] is every element of a list.
var auditContract = []struct{ path, kind string }{
	{"nodes", "number"}, {"pods", "number"}, {"pricedNodes", "number"}, {"dollarsPerHour", "number"},
	{"requested.cpu", "number"}, {"requested.memory", "number"},
	{"cheapest.dollarsPerHour", "number"}, {"cheapest.lowerBoundPerHour", "number"},
	{"cheapest.machines[].flavor", "string"}, {"cheapest.machines[].count", "number"},
	{"cheapest.machines[].arch", "string"}, {"cheapest.machines[].capacityType", "string"},
	{"byMoves.dollarsPerHour", "number"}, {"byMoves.moves", "number"}, {"byMoves.emptied[]", "string"},
	{"obstacles[].kind", "string"}, {"obstacles[].object", "string"}, {"obstacles[].pods", "number"}, {"obstacles[].dollarsPerHour", "number"},
	{"worstNodes[].node", "string"}, {"worstNodes[].dollarsPerHour", "number"}, {"worstNodes[].utilization", "number"}, {"worstNodes[].emptiedBy", "string"},
	{"unpricedNodes[].node", "string"}, {"unpricedNodes[].why", "string"},
	{"elapsedMillis", "number"},
}

// valuesAt returns all values of a document at a path.
func valuesAt(document any, path string) (all []any) {
	if path == "" {
		return []any{document}
	}
	name, rest, _ := strings.Cut(path, ".")
	name, list := strings.CutSuffix(name, "[]")
	object, is := document.(map[string]any)
	if !is || object[name] == nil {
		return nil
	}
	if !list {
		return valuesAt(object[name], rest)
	}
	elements, _ := object[name].([]any)
	for _, e := range elements {
		all = append(all, valuesAt(e, rest)...)
	}
	return all
}

// documentOf returns the JSON of an audit of a dump.
func documentOf(t *testing.T, dump string, args ...string) any {
	t.Helper()
	code, stdout, stderr := supercargo(t, dump, append([]string{"audit", "--from", "-", "-o", "json"}, args...)...)
	if code != command.ExitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	var document any
	testfile.JSON(t, stdout, &document)
	return document
}

// unknownNode is a node whose price nobody knows, with a pod.
const unknownNode = `- apiVersion: v1
  kind: Node
  metadata: {name: own, labels: {kubernetes.io/arch: amd64}}
  status: {allocatable: {cpu: "4", memory: 8Gi, pods: "110"}, conditions: [{type: Ready, status: "True"}]}
- apiVersion: v1
  kind: Pod
  metadata: {name: far, namespace: shop}
  spec: {nodeName: own, containers: [{name: main, resources: {requests: {cpu: 1, memory: 1Gi}}}]}
  status: {phase: Running}
kind: List
`

func TestTheJSONOfAnAuditHasEachFieldThatScriptsRead(t *testing.T) {
	document := documentOf(t, strings.Replace(auditInput, "kind: List\n", unknownNode, 1))
	kindOf := func(value any) string {
		switch value.(type) {
		case float64:
			return "number"
		case string:
			return "string"
		}
		return fmt.Sprintf("%T", value)
	}
	for _, field := range auditContract {
		values := valuesAt(document, field.path)
		if len(values) == 0 {
			t.Errorf("%s is missing", field.path)
		}
		for _, value := range values {
			if kindOf(value) != field.kind {
				t.Errorf("%s is %v, want a %s", field.path, value, field.kind)
			}
		}
	}
	for path, want := range map[string]any{
		"nodes": 3.0, "pricedNodes": 2.0, "pods": 2.0, "dollarsPerHour": 0.576, "byMoves.dollarsPerHour": 0.192, "byMoves.moves": 0.0, "byMoves.emptied[]": "idle",
		"unpricedNodes[].node": "own",
	} {
		if values := valuesAt(document, path); len(values) != 1 || values[0] != want {
			t.Errorf("%s is %v, want %v", path, values, want)
		}
	}
	text, _ := json.Marshal(document)
	if strings.Contains(string(text), ":null") {
		t.Errorf("a field is null: %s", text)
	}
}
