package main

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// bills writes the modules of each binary with their versions, as CycloneDX. The list is embedded in the
// binary, so it is complete.
func (o *options) bills(programs []program) error {
	for _, p := range programs {
		info, err := buildinfo.ReadFile(p.file)
		if err != nil {
			return fmt.Errorf("read the build information of %s: %w", p.file, err)
		}
		bom := cdx.NewBOM()
		bom.Metadata = &cdx.Metadata{
			Timestamp: o.created.Format(time.RFC3339),
			Component: &cdx.Component{
				BOMRef: p.name, Type: cdx.ComponentTypeApplication, Name: p.name, Version: p.tag(o.version),
				Licenses: &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
			},
			Properties: &[]cdx.Property{{Name: "go:version", Value: info.GoVersion}, {Name: "os", Value: p.os}, {Name: "arch", Value: p.arch}, {Name: "revision", Value: o.revision}},
		}
		components := []cdx.Component{}
		for _, dep := range info.Deps { // sorted by path
			if dep.Replace != nil {
				dep = dep.Replace
			}
			url := fmt.Sprintf("pkg:golang/%s@%s", dep.Path, dep.Version)
			component := cdx.Component{BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: dep.Path, Version: dep.Version, PackageURL: url}
			components = append(components, component)
		}
		bom.Components = &components
		var out bytes.Buffer
		if err := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
			return fmt.Errorf("write the bill of materials of %s: %w", p.file, err)
		}
		if err := o.write(fmt.Sprintf("sbom/%s_%s_%s.cdx.json", p.label(), p.os, p.arch), out.Bytes()); err != nil {
			return err
		}
	}
	return nil
}
