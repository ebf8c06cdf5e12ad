package tarifffile

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/energy/tariff"
	"supercargo.dev/supercargo/test/kit/testfile"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

const sound = `time,zone,grams_per_kwh
2026-01-01T12:00:00Z,north,30
2026-01-01T10:00:00Z,south,600
`

func write(t *testing.T, path, text string) {
	t.Helper()
	testfile.Write(t, path, text)
}

func inFile(t *testing.T, text string) (*File, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "carbon.csv")
	write(t, path, text)
	return New(path, tariff.Grams, time.Hour), path
}

func TestAFileIsFollowed(t *testing.T) {
	f, path := inFile(t, sound)
	if f.At("north", noon).Known || f.Status(noon).Err == nil {
		t.Error("a price is known before anything was read")
	}
	if err := f.Read(); err != nil {
		t.Fatal(err)
	}
	if got := f.At("north", noon); got != (tariff.Price{PerKWh: 30, Known: true}) {
		t.Errorf("%+v, want 30", got)
	}
	if f.At("south", noon).Known {
		t.Error("a price is known that expired an hour ago")
	}
	if got := f.Status(noon); got != (Status{Priced: 1, Without: 1}) {
		t.Errorf("%+v, want one zone with a price and one without", got)
	}
	write(t, path, strings.Replace(sound, ",30", ",45", 1))
	if err := f.Read(); err != nil || f.At("north", noon).PerKWh != 45 {
		t.Errorf("%+v (%v) after a change to 45", f.At("north", noon), err)
	}
}

// TestAMountedConfigMapIsFollowed replaces a link to another folder, as the kubelet does instead of writing to the
// file.
func TestAMountedConfigMapIsFollowed(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"1": sound, "2": strings.Replace(sound, ",30", ",45", 1)} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name, "carbon.csv"), text)
	}
	point := func(to string) {
		t.Helper()
		if err := os.Symlink(to, filepath.Join(dir, "new")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "data")); err != nil {
			t.Fatal(err)
		}
	}
	f := New(filepath.Join(dir, "data", "carbon.csv"), tariff.Grams, time.Hour)
	for to, want := range map[string]float64{"1": 30, "2": 45} {
		point(to)
		if err := f.Read(); err != nil || f.At("north", noon).PerKWh != want {
			t.Errorf("%+v (%v), want %v", f.At("north", noon), err, want)
		}
	}
}

// TestABadFileKnowsNothing checks that no price is known while the file is invalid, and that prices return when it is
// fixed.
func TestABadFileKnowsNothing(t *testing.T) {
	spoil := map[string]struct {
		change func(t *testing.T, path string)
		says   string
	}{
		"is gone":           {func(t *testing.T, path string) { remove(t, path) }, "no such file"},
		"is empty":          {func(t *testing.T, path string) { write(t, path, "") }, "header"},
		"has no rows":       {func(t *testing.T, path string) { write(t, path, "time,grams_per_kwh\n") }, "no rows"},
		"is about dollars":  {func(t *testing.T, path string) { write(t, path, "time,dollars_per_kwh\n2026-01-01T12:00:00Z,1\n") }, "grams_per_kwh"},
		"has one bad value": {func(t *testing.T, path string) { write(t, path, sound+"2026-01-01T13:00:00Z,north,NaN\n") }, "line 4"},
		"is half written":   {func(t *testing.T, path string) { write(t, path, sound[:len(sound)-9]) }, "line 3"},
		"is too long": {func(t *testing.T, path string) {
			write(t, path, sound)
			if err := os.Truncate(path, MaxBytes+1); err != nil {
				t.Fatal(err)
			}
		}, "more than 8388608 bytes"},
		"is a folder": {func(t *testing.T, path string) {
			remove(t, path)
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		}, "not a regular file"},
		"is a pipe": {func(t *testing.T, path string) {
			remove(t, path)
			if err := syscall.Mkfifo(path, 0o600); err != nil {
				t.Fatal(err)
			}
		}, "not a regular file"},
	}
	for name, tc := range spoil {
		t.Run(name, func(t *testing.T) {
			f, path := inFile(t, sound)
			if err := f.Read(); err != nil {
				t.Fatal(err)
			}
			tc.change(t, path)
			for range 2 { // the error persists
				if err := f.Read(); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), tc.says) {
					t.Errorf("error %v, want one that names the file and says %q", err, tc.says)
				}
			}
			if s := f.Status(noon); f.At("north", noon).Known || s.Priced != 0 || s.Err == nil {
				t.Errorf("%+v is known of it, %+v", f.At("north", noon), s)
			}
			remove(t, path)
			write(t, path, sound)
			if err := f.Read(); err != nil || !f.At("north", noon).Known {
				t.Errorf("%+v (%v) after the repair", f.At("north", noon), err)
			}
		})
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

// TestTroubleFitsIntoAnEvent checks the length because the API server rejects longer notes and the file may contain
// anything.
func TestTroubleFitsIntoAnEvent(t *testing.T) {
	tests := []struct {
		name, text, reason, says string
	}{
		{"sound", sound, "", ""},
		{"not there", "", v1alpha1.SchedulingReasonTariffUnreadable, "carbon.csv: no such file"},
		{"too long", strings.Repeat("x", MaxBytes+1), v1alpha1.SchedulingReasonTariffUnreadable, "more than 8388608 bytes"},
		{"expired", "time,grams_per_kwh\n2025-01-01T10:00:00Z,600\n", v1alpha1.SchedulingReasonTariffExpired, "expired"},
		{"no number", sound + "2026-01-01T13:00:00Z,north,cheap\n", v1alpha1.SchedulingReasonTariffInvalid, "line 4"},
		{"a cell without end", sound + "2026-01-01T13:00:00Z,north," + strings.Repeat("\u20ac", 5000) + "\n", v1alpha1.SchedulingReasonTariffInvalid, "line 4"},
		{"one that is cut within a letter", sound + "2026-01-01T13:00:00Z,north,x" + strings.Repeat("\u20ac", 5000) + "\n", v1alpha1.SchedulingReasonTariffInvalid, "line 4"},
		{"or a byte later", sound + "2026-01-01T13:00:00Z,north,xx" + strings.Repeat("\u20ac", 5000) + "\n", v1alpha1.SchedulingReasonTariffInvalid, "line 4"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			f, path := inFile(t, tc.text)
			if tc.text == "" {
				remove(t, path)
			}
			_ = f.Read() // the status includes the error
			reason, why := f.Status(noon).Trouble()
			if reason != tc.reason || !strings.Contains(why, tc.says) || (tc.reason == "") != (why == "") {
				t.Errorf("%s: %q, want %s that says %q", reason, why, tc.reason, tc.says)
			}
			if why != "" && tc.reason != v1alpha1.SchedulingReasonTariffExpired && strings.Count(why, path) != 1 {
				t.Errorf("%q, want the path once", why)
			}
			if len(why) > 900 || !utf8.ValidString(why) {
				t.Errorf("%d bytes: %q", len(why), why)
			}
		})
	}
}

// TestAFileIsReadAgainAsTimeGoesBy uses synctest, where time advances when all goroutines are blocked.
func TestAFileIsReadAgainAsTimeGoesBy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, path := inFile(t, sound)
		noted := make(chan Status)
		ctx, cancel := context.WithCancel(t.Context())
		begin := time.Now() // long before the times in the file
		go f.Run(ctx, time.Minute, clock.RealClock{}, func(s Status) { noted <- s })
		if got := <-noted; got != (Status{Without: 2}) || time.Since(begin) != time.Minute {
			t.Errorf("%+v after %v, want two zones without a price after a minute", got, time.Since(begin))
		}
		write(t, path, "time,grams_per_kwh\n"+begin.UTC().Format(time.RFC3339)+",1\n")
		if got := <-noted; got != (Status{Priced: 1}) || time.Since(begin) != 2*time.Minute {
			t.Errorf("%+v after %v, want one zone with a price after two", got, time.Since(begin))
		}
		cancel()
		synctest.Wait()
	})
}
