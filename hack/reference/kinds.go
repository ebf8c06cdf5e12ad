package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

const kindsHead = `<!-- Written by make generate from the comments of api/v1alpha1: change the descriptions there. -->
# Kinds

Every field of the kinds of group ` + "`supercargo.dev`" + `. ` + "`kubectl explain KIND.spec`" + ` prints the same. In a path, ` + "`[]`" + ` stands for each item of a list and ` + "`{}`" + ` for each key of a map.
Required fields are marked so; a field has its default if it is not set. [Conditions](conditions.md) has the types and reasons of ` + "`status.conditions`" + `.
`

// kinds returns the page that describes the CustomResourceDefinitions in a folder.
func kinds(folder string) (string, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*_*.yaml"))
	if err != nil || len(files) == 0 {
		return "", fmt.Errorf("no definitions in %s: %w", folder, err)
	}
	slices.Sort(files)
	var b strings.Builder
	b.WriteString(kindsHead)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(text, &crd); err != nil {
			return "", fmt.Errorf("read %s: %w", file, err)
		}
		for _, v := range crd.Spec.Versions {
			schema := v.Schema.OpenAPIV3Schema
			fmt.Fprintf(&b, "\n## %s\n\n%s\n\nVersion `%s`, %s. Resource `%s`", crd.Spec.Names.Kind, cell(schema.Description), v.Name, scope(crd.Spec.Scope), crd.Spec.Names.Plural)
			if short := crd.Spec.Names.ShortNames; len(short) > 0 {
				fmt.Fprintf(&b, ", short `%s`", strings.Join(short, "`, `"))
			}
			b.WriteString(".\n\n| field | type | description |\n| --- | --- | --- |\n")
			for _, part := range []string{"spec", "status"} {
				if p, ok := schema.Properties[part]; ok {
					rows(&b, part, &p, slices.Contains(schema.Required, part))
				}
			}
		}
	}
	return b.String(), nil
}

func scope(s apiextensionsv1.ResourceScope) string {
	if s == apiextensionsv1.ClusterScoped {
		return "for the whole cluster"
	}
	return "in a namespace"
}

// rows writes the row of a field, and the rows of the fields in it. It omits the fields of conditions, which Kubernetes
// defines.
func rows(b *strings.Builder, path string, p *apiextensionsv1.JSONSchemaProps, required bool) {
	kind, inner := typeOf(p)
	notes := []string{kind}
	if required {
		notes = append(notes, "required")
	}
	if p.Default != nil {
		notes = append(notes, "default `"+cell(string(p.Default.Raw))+"`")
	}
	if len(p.Enum) > 0 {
		var values []string
		for _, v := range p.Enum {
			values = append(values, "`"+strings.Trim(string(v.Raw), `"`)+"`")
		}
		notes = append(notes, "one of "+strings.Join(values, ", "))
	}
	fmt.Fprintf(b, "| `%s` | %s | %s |\n", path, strings.Join(notes, "; "), cell(p.Description))
	if inner == nil || path == "status.conditions" {
		return
	}
	suffix := map[string]string{"list": "[]", "map": "{}"}[strings.Fields(kind)[0]]
	for _, name := range slices.Sorted(maps.Keys(inner.Properties)) {
		field := inner.Properties[name]
		rows(b, path+suffix+"."+name, &field, slices.Contains(inner.Required, name))
	}
}

// typeOf returns the type of a field in words, and the schema of the fields in it, or nil if it has none.
func typeOf(p *apiextensionsv1.JSONSchemaProps) (kind string, inner *apiextensionsv1.JSONSchemaProps) {
	switch {
	case p.XIntOrString:
		return "integer or string", nil
	case p.Type == "array" && p.Items != nil && p.Items.Schema != nil:
		of, inner := typeOf(p.Items.Schema)
		return "list of " + of, inner
	case p.Type == "object" && p.AdditionalProperties != nil && p.AdditionalProperties.Schema != nil:
		of, inner := typeOf(p.AdditionalProperties.Schema)
		return "map of " + of, inner
	case p.Type == "string" && p.Format != "":
		return "string (" + p.Format + ")", nil
	case p.Type == "object":
		return "object", p
	}
	return p.Type, nil
}
