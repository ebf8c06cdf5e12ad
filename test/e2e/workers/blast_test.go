//go:build workers

package workers

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"supercargo.dev/supercargo/test/kit/testfile"
)

// The parameters of the BLAST search: reads that were cut out of chromosomes and slightly modified are
// searched in all of them.
const (
	chromosomes, bases = 400, 10_000
	reads, readBases   = 1200, 400
	spoiled            = 0.03 // of a read's bases, each replaced by a random base
	parts              = 24   // into which the reads are split
)

// cut is the origin of a read.
type cut struct {
	chromosome string
	from, to   int // positions as in BLAST: from 1, and in reverse on the other strand
}

// sequences returns a genome and reads as FASTA, and the origin of each read. Every second read is of the
// other strand. The results are always the same.
func sequences() (genome, queries string, cuts map[string]cut) {
	random := rand.New(rand.NewPCG(11, 22))
	base := func() byte { return "ACGT"[random.IntN(4)] }
	var g, q strings.Builder
	all := make([][]byte, chromosomes)
	for i := range all {
		all[i] = make([]byte, bases)
		for j := range all[i] {
			all[i][j] = base()
		}
		fmt.Fprintf(&g, ">chr%d\n%s\n", i, all[i])
	}
	cuts = map[string]cut{}
	for i := range reads {
		chromosome, at := random.IntN(chromosomes), random.IntN(bases-readBases)
		read := slices.Clone(all[chromosome][at : at+readBases])
		for j := range read {
			if random.Float64() < spoiled {
				read[j] = base()
			}
		}
		c := cut{fmt.Sprintf("chr%d", chromosome), at + 1, at + readBases}
		if i%2 == 1 {
			slices.Reverse(read)
			for j := range read {
				read[j] = "ACGT"[3-strings.IndexByte("ACGT", read[j])] // A and T pair, C and G
			}
			c.from, c.to = c.to, c.from
		}
		cuts[fmt.Sprintf("read%d", i)] = c
		fmt.Fprintf(&q, ">read%d\n%s\n", i, read)
	}
	return g.String(), q.String(), cuts
}

// blast returns a Makeflow that splits the reads and makes a database of the genome, searches each part of
// the reads, and merges the hits.
func blast(ledger string) (rules string, outputs []string) {
	var b strings.Builder
	category := func(name string) { fmt.Fprintf(&b, ".MAKEFLOW CATEGORY %s\nCORES=1\nMEMORY=200\nDISK=50\n", name) }
	rule := func(files []string, needs, does string) {
		fmt.Fprintf(&b, "%s: %s\n\techo %s >> %s; %s\n", strings.Join(files, " "), needs, files[0], ledger, does)
		outputs = append(outputs, files[0])
	}
	names := func(prefix string) (list []string) {
		for i := range parts {
			list = append(list, fmt.Sprintf("%s.%d", prefix, i))
		}
		return list
	}
	category("prepare")
	rule(names("reads"), "reads.fa", fmt.Sprintf(`awk -v n=%d '/^>/ {f = "reads." i++ %% n} {print > f}' reads.fa`, parts))
	rule([]string{"genome.tar"}, "genome.fa", "makeblastdb -in genome.fa -dbtype nucl -out genome && tar cf genome.tar genome.n*")
	category("search") // each takes some seconds on any machine, so that the pool grows before the first worker has done them all
	for i, hits := range names("hits") {
		rule([]string{hits}, fmt.Sprintf("reads.%d genome.tar", i), fmt.Sprintf(
			"tar xf genome.tar && sleep 3 && blastn -task blastn -word_size 7 -evalue 1e-20 -max_hsps 1 -db genome -query reads.%d -outfmt '6 qseqid sseqid sstart send pident' > %s", i, hits))
	}
	category("merge")
	all := strings.Join(names("hits"), " ")
	rule([]string{"hits"}, all, "cat "+all+" | sort > hits")
	return b.String(), outputs
}

// startBLAST starts the search with a manager that is listed only in a catalog server, and returns its
// folder, its ledger, the rules' first outputs and a channel that is closed with it.
func startBLAST(t *testing.T, password, catalog, project string) (dir, ledger string, outputs []string, ended <-chan struct{}, cuts map[string]cut) {
	t.Helper()
	for _, name := range []string{"blastn", "makeblastdb"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Fatalf("%v: install Debian's ncbi-blast+ (apt-get install --no-install-recommends ncbi-blast+)", err)
		}
	}
	dir, ledger = t.TempDir(), filepath.Join(t.TempDir(), "ledger")
	rules, outputs := blast(ledger)
	genome, queries, cuts := sequences()
	for name, content := range map[string]string{"blast.makeflow": rules, "password": password, "genome.fa": genome, "reads.fa": queries} {
		testfile.Write(t, filepath.Join(dir, name), content)
	}
	ended = program(t, dir, "makeflow", "-T", "wq", "-p", "0", "-N", project, "-C", catalog, "--password", "password", "blast.makeflow")
	return dir, ledger, outputs, ended, cuts
}

// checkHits checks that each read was found only where it was cut out. A few bases at its ends may be
// modified, which BLAST then leaves out.
func checkHits(t *testing.T, path string, cuts map[string]cut) {
	t.Helper()
	const ends, least = 20, 90.0 // bases, and per cent of them that are alike
	text := testfile.Read(t, path)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) != len(cuts) {
		t.Errorf("%d hits for %d reads", len(lines), len(cuts))
	}
	wrong := 0
	for _, line := range lines {
		field := strings.Fields(line)
		if len(field) != 5 {
			t.Fatalf("hit %q, want five fields", line)
		}
		want := cuts[field[0]]
		from, _ := strconv.Atoi(field[2])
		to, _ := strconv.Atoi(field[3])
		alike, _ := strconv.ParseFloat(field[4], 64)
		if field[1] != want.chromosome || max(from-want.from, want.from-from) > ends || max(to-want.to, want.to-to) > ends || !(alike >= least) {
			if wrong++; wrong <= 5 {
				t.Errorf("hit %q, want %+v", line, want)
			}
		}
	}
	if wrong > 5 {
		t.Errorf("%d hits are wrong in all", wrong)
	}
}
