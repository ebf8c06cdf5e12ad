package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

// named matches the image of a program in the manifests, whose registry has a reserved domain.
var named = regexp.MustCompile(`\bregistry\.invalid/supercargo/([a-z-]+):v[0-9][0-9A-Za-z.+-]*`)

// pin replaces image names by names with digests. The tag is only informative.
func (o *options) pin(content []byte, digests map[string]string) []byte {
	return named.ReplaceAllFunc(content, func(match []byte) []byte {
		name := string(named.FindSubmatch(match)[1])
		digest, ok := digests[name]
		if !ok {
			return match
		}
		return fmt.Appendf(nil, "%s/%s:%s@%s", o.repository, name, o.version, digest)
	})
}

// manifests packs manifests/, except the charts and files that only a release fills in.
func (o *options) manifests(digests map[string]string) error {
	all, err := tree(filepath.Join(o.source, "manifests"), "manifests", func(name string, content []byte) []byte {
		if strings.HasSuffix(name, ".yaml") {
			return o.pin(content, digests)
		}
		return content
	})
	if err != nil {
		return err
	}
	var files []entry
	for _, f := range all {
		if !strings.HasPrefix(f.name, "manifests/helm/") && !strings.HasPrefix(f.name, "manifests/krew/") && !strings.HasSuffix(f.name, ".go") {
			files = append(files, f)
		}
	}
	packed, err := pack(files, o.created)
	if err != nil {
		return err
	}
	return o.write("manifests_"+o.version+".tar.gz", packed)
}

// runs maps the parts of the chart to the programs of their images.
var runs = map[string]string{
	"autoscaler": "autoscaler", "descheduler": "descheduler", "evictions": "descheduler", "nodeAgent": "node-agent", "nodeMeter": "node-agent",
	"nodeRuntime": "runc-supercargo", "metricsAdapter": "metrics-adapter", "dashboard": "supercargo",
}

// schedulerDigests begins the line of the chart's values that has the digest of kube-scheduler for each version of
// Kubernetes. The first version is that of the usual build.
const schedulerDigests = "  digests: {"

// schedulerDigest matches a version in that line, with its digest.
var schedulerDigest = regexp.MustCompile(`"([0-9.]+)": ""`)

// charts packs the charts, with the version of the release and the digests of the images.
func (o *options) charts(digests map[string]string) error {
	for _, chart := range []string{"supercargo", "supercargo-crds"} {
		var wrong error
		files, err := tree(filepath.Join(o.source, "manifests", "helm", chart), chart, func(name string, content []byte) []byte {
			switch {
			case name == "Chart.yaml":
				return versions.ReplaceAll(content, []byte("${1} "+strings.TrimPrefix(o.version, "v")))
			case name == "values.yaml" && chart == "supercargo": // the chart of the CRDs runs nothing
				content, wrong = o.values(content, digests)
			case strings.HasPrefix(name, "scheduler/"):
				return o.pin(content, digests)
			}
			return content
		})
		if err != nil || wrong != nil {
			return fmt.Errorf("pack chart %s: %w", chart, firstOf(err, wrong))
		}
		packed, err := pack(files, o.created)
		if err != nil {
			return err
		}
		if err := o.write(fmt.Sprintf("%s-%s.tgz", chart, strings.TrimPrefix(o.version, "v")), packed); err != nil {
			return err
		}
	}
	return nil
}

// versions matches the lines of a chart that a release fills in.
var versions = regexp.MustCompile(`(?m)^(version:|appVersion:) .*$`)

// values fills in the registry and the digests. It edits lines, to keep comments.
func (o *options) values(content []byte, digests map[string]string) ([]byte, error) {
	lines := strings.Split(string(content), "\n")
	part, filled := "", map[string]bool{}
	for i, line := range lines {
		if key, _, ok := strings.Cut(line, ":"); ok && key != "" && !strings.ContainsAny(key[:1], " #") {
			part = key
		}
		switch {
		case part == "image" && strings.HasPrefix(line, `  repository: ""`):
			lines[i] = strings.Replace(line, `""`, o.repository, 1)
		case part == "scheduler" && strings.HasPrefix(line, schedulerDigests):
			lines[i] = fillSchedulers(line, digests)
			filled[part] = lines[i] != line
		case strings.HasPrefix(line, `  image: {repository: "", tag: "", digest: ""}`):
			if digest := digests[runs[part]]; digest != "" {
				lines[i] = strings.Replace(line, `digest: ""`, "digest: "+digest, 1)
				filled[part] = true
			}
		}
	}
	for part, program := range runs {
		if digests[program] != "" && !filled[part] {
			return nil, fmt.Errorf("values.yaml has no line \"image\" of %s", part)
		}
	}
	if digests["kube-scheduler"] != "" && !filled["scheduler"] {
		return nil, errors.New(`values.yaml has no line "digests" of scheduler`)
	}
	return []byte(strings.Join(lines, "\n")), nil
}

// fillSchedulers fills in the digests of kube-scheduler. The first version of the line is that of the usual build;
// those that the release lacks stay empty.
func fillSchedulers(line string, digests map[string]string) string {
	first := true
	return schedulerDigest.ReplaceAllStringFunc(line, func(match string) string {
		version := schedulerDigest.FindStringSubmatch(match)[1]
		p := program{name: "kube-scheduler"}
		if !first {
			p.variant = "kubernetes" + version
		}
		first = false
		return fmt.Sprintf("%q: %q", version, digests[p.label()])
	})
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
