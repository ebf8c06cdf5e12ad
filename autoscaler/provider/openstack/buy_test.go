package openstack

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
)

func TestAfterARefusalNothingMoreIsAskedForAndWhatWasIsWaitedFor(t *testing.T) {
	refusal := errors.New("quota exceeded")
	var begun sync.WaitGroup
	begun.Add(concurrency)
	var asked, answered atomic.Int32
	err := askAll(3*concurrency, func(i int) error {
		if asked.Add(1) > concurrency {
			t.Errorf("number %d is asked for after a refusal", i)
			return nil
		}
		begun.Done()
		begun.Wait()
		defer answered.Add(1)
		return refusal
	})
	if !errors.Is(err, refusal) || answered.Load() != concurrency {
		t.Errorf("error %v after %d of %d answers", err, answered.Load(), concurrency)
	}
}

func TestAFaultOfOneRequestDoesNotKeepTheOthersBack(t *testing.T) {
	var asked atomic.Int32
	err := askAll(3*concurrency, func(i int) error {
		asked.Add(1)
		if i == 0 {
			return io.ErrUnexpectedEOF
		}
		return nil
	})
	if !errors.Is(err, io.ErrUnexpectedEOF) || asked.Load() != 3*concurrency {
		t.Errorf("error %v after %d of %d requests", err, asked.Load(), 3*concurrency)
	}
}

func TestARefusalMattersMoreThanAFaultThatPasses(t *testing.T) {
	refusal := errors.New("forbidden")
	for name, errs := range map[string][]error{"before": {refusal, io.ErrUnexpectedEOF}, "after": {io.ErrUnexpectedEOF, refusal}} {
		var both sync.WaitGroup
		both.Add(2)
		err := askAll(2, func(i int) error {
			both.Done()
			both.Wait()
			return errs[i]
		})
		if !errors.Is(err, refusal) {
			t.Errorf("%s: error %v, want the refusal", name, err)
		}
	}
}
