package process

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestAComponentThatDoesNotEndIsAbandoned(t *testing.T) {
	let := make(chan struct{})
	c := Start("kube-lazy", KubernetesLog, func(context.Context) error {
		<-let
		return nil
	})
	err := c.stopWithin(time.Millisecond)
	if want := "stop kube-lazy: still running after 1ms"; err == nil || err.Error() != want {
		t.Errorf("stopping says %v, want %s", err, want)
	}
	var at *Error
	if !errors.As(err, &at) || at.Log != KubernetesLog {
		t.Errorf("%v does not lead to the log", err)
	}
	close(let)
	if err := c.Stop(); err != nil {
		t.Errorf("once it can end: %v", err)
	}
	if err := c.Died(); err != nil {
		t.Errorf("it was stopped, and is said to have died: %v", err)
	}
}
