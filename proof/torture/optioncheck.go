// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// CheckGiven returns an error for zeros that Check would replace by defaults. Call it where a user has written the values.
func (o *Options) CheckGiven() error {
	switch {
	case o.Contenders == 0:
		return errors.New("0 contenders: allowed are 1 to 16")
	case o.Clients == 0:
		return errors.New("0 clients: allowed are 1 to 16")
	case o.Timeout == 0:
		return errors.New("session timeout 0s: allowed are 2s to 40s")
	}
	return nil
}

// Check completes the options. Its error states the allowed values.
func (o *Options) Check() error {
	if o.Duration < 10*time.Second || o.Duration > 24*time.Hour {
		return fmt.Errorf("duration %v: allowed are 10s to 24h", o.Duration)
	}
	if o.Servers != 3 && o.Servers != 5 && (o.Rival == nil || o.Servers != 1) {
		return fmt.Errorf("%d servers: allowed are 3 and 5", o.Servers)
	}
	if len(o.Faults) == 0 {
		o.Faults = o.Kinds()
	}
	if o.Rival != nil {
		o.Faults = slices.DeleteFunc(slices.Clone(o.Faults), func(name string) bool { return o.Rival.Without[name] != "" })
	}
	for _, name := range o.Faults {
		if _, known := kinds[name]; !known {
			return fmt.Errorf("fault %q: allowed are %s", name, strings.Join(o.Kinds(), ", "))
		}
		if !slices.Contains(o.Kinds(), name) {
			return fmt.Errorf("fault %s: there are no replicas of a lock service", name)
		}
	}
	if slices.Contains(o.Faults, "step-clock") && !o.Steps {
		return errors.New("fault step-clock: these contenders' clocks cannot be stepped")
	}
	for _, n := range []struct {
		name   string
		value  *int
		ifZero int
	}{{"contenders", &o.Contenders, 4}, {"clients", &o.Clients, 3}} {
		if *n.value == 0 {
			*n.value = n.ifZero
		}
		if *n.value < 1 || *n.value > 16 {
			return fmt.Errorf("%d %s: allowed are 1 to 16", *n.value, n.name)
		}
	}
	for _, n := range []struct {
		name        string
		value, most int
	}{{"waiters", o.Waiters, 1000}, {"holds", o.Holds, 10_000}} {
		if n.value < 0 || n.value > n.most {
			return fmt.Errorf("%d %s: allowed are 0 to %d", n.value, n.name, n.most)
		}
		if n.value > 0 && o.Rival != nil {
			return fmt.Errorf("%d %s: only contenders of this library support them", n.value, n.name)
		}
	}
	if o.Recipes && o.Rival != nil {
		return errors.New("recipes: only contenders of this library exercise them")
	}
	if err := o.checkReplicas(); err != nil {
		return err
	}
	if o.Timeout == 0 {
		o.Timeout = 4 * time.Second
	}
	if o.Timeout < 2*time.Second || o.Timeout > 40*time.Second {
		return fmt.Errorf("session timeout %v: allowed are 2s to 40s", o.Timeout)
	}
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	return checkPlan(o, o.Plan)
}

// checkReplicas checks the options of a run with a lock service.
func (o *Options) checkReplicas() error {
	switch {
	case o.Replicas < 0 || o.Replicas > 8:
		return fmt.Errorf("%d replicas: allowed are 0 to 8", o.Replicas)
	case o.Replicas == 0:
		return nil
	case o.Rival != nil:
		return fmt.Errorf("%d replicas: a rival has no lock service", o.Replicas)
	case o.Contenders < 2:
		return fmt.Errorf("%d contenders: at least 2 are needed with a lock service, which every second one uses", o.Contenders)
	case o.Holds > 0:
		return fmt.Errorf("%d holds: they are not supported with a lock service", o.Holds)
	}
	return nil
}
