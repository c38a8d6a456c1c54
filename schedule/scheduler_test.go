// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/schedule"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestEachActivationIsRunOnceOverAllReplicas(t *testing.T) {
	bubble(t, func(s servers) {
		a, b, c := s.start("a"), s.start("b"), s.start("c")
		s.sleepUntil(5*time.Minute + time.Second)
		require.Equal(s, []float64{1, 2, 3, 4, 5}, s.minutes())
		last, err := c.Last(s.Context())
		require.NoError(s, err)
		require.Equal(s, s.began.Add(5*time.Minute).UTC(), last.Time)
		require.Equal(s, "a", last.Owner)
		require.Equal(s, s.list()[4].activation.Token(), last.Token)
		a.mustStop()
		s.sleepUntil(7*time.Minute + time.Second)
		require.Equal(s, []float64{1, 2, 3, 4, 5, 6, 7}, s.minutes())
		require.Equal(s, "b", s.list()[5].replica)
		require.Greater(s, s.list()[5].activation.Token(), s.list()[4].activation.Token())
		b.mustStop()
		c.mustStop()
	})
}

func TestActivationThatNoLeaderStoredIsRunAfterTheFailover(t *testing.T) {
	bubble(t, func(s servers) {
		a, b := s.start("a"), s.start("b")
		s.sleepUntil(2*time.Minute - time.Second)
		a.link.Hold(zktest.Both)
		s.sleepUntil(3*time.Minute + time.Second)
		require.Equal(s, []float64{1, 2, 3}, s.minutes())
		first := s.list()[1]
		require.Equal(s, "b", first.replica)
		require.Greater(s, first.at.Sub(first.activation.Time), timeout/2, "after the session of the other replica")
		a.reconnect()
		a.mustStop()
		b.mustStop()
	})
}

func TestActivationOlderThanMaxDelayIsSkipped(t *testing.T) {
	bubble(t, func(s servers) {
		a, b := s.start("a"), s.connect("b", &schedule.Options{MaxDelay: time.Second})
		b.run(nil)
		s.sleepUntil(2*time.Minute - time.Second)
		a.link.Hold(zktest.Both)
		s.sleepUntil(3*time.Minute + time.Second)
		require.Equal(s, []float64{1, 3}, s.minutes())
		a.reconnect()
		a.mustStop()
		b.mustStop()
	})
}

func TestActivationThatCannotBeStoredWithinMaxDelayIsSkipped(t *testing.T) {
	bubble(t, func(s servers) {
		a := s.connect("a", &schedule.Options{MaxDelay: time.Second})
		a.run(nil)
		s.sleepUntil(2*time.Minute - 10*time.Millisecond)
		a.link.Refuse(true)
		a.link.Reset()
		time.Sleep(timeout / 5)
		s.sleepUntil(2*time.Minute + time.Second + 10*time.Millisecond) // the term lasts
		a.link.Refuse(false)
		s.sleepUntil(3*time.Minute + time.Second)
		require.Equal(s, []float64{1, 3}, s.minutes())
		require.Equal(s, s.list()[0].activation.Token(), s.list()[1].activation.Token(), "of one term")
		a.mustStop()
	})
}

func TestActivationWhoseLeaderDiedWhileItRanIsNotRunAgain(t *testing.T) {
	bubble(t, func(s servers) {
		a, b := s.connect("a", nil), s.connect("b", nil)
		cause := make(chan error, 1)
		a.run(func(ctx context.Context, _ schedule.Activation) error {
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return nil
		})
		b.run(nil)
		s.sleepUntil(time.Minute + time.Second)
		a.link.Hold(zktest.Both)
		s.sleepUntil(3*time.Minute + time.Second)
		require.Equal(s, []float64{1, 2, 3}, s.minutes())
		require.Equal(s, "b", s.list()[1].replica)
		require.ErrorIs(s, <-cause, recipes.ErrLost)
		a.reconnect()
		a.mustStop()
		b.mustStop()
	})
}

func TestActivationWhoseStoreHasNoAnswerIsRunOnce(t *testing.T) {
	bubble(t, func(s servers) {
		a, b := s.start("a"), s.start("b")
		for i := range 6 {
			s.sleepUntil(time.Duration(i+1)*time.Minute - 10*time.Millisecond)
			if i%2 == 0 {
				a.link.LoseReply(2)
			} else {
				a.link.LoseRequest(2)
			}
		}
		s.sleepUntil(6*time.Minute + 30*time.Second)
		require.Equal(s, []float64{1, 2, 3, 4, 5, 6}, s.minutes())
		a.mustStop()
		b.mustStop()
	})
}

func TestActivationsThatPassDuringRunAreSkippedExceptForTheNewest(t *testing.T) {
	bubble(t, func(s servers) {
		a := s.connect("a", nil)
		first := true
		a.run(func(context.Context, schedule.Activation) error {
			if first {
				time.Sleep(210 * time.Second)
			}
			first = false
			return nil
		})
		s.sleepUntil(6*time.Minute + time.Second)
		require.Equal(s, []float64{1, 4, 5, 6}, s.minutes())
		a.mustStop()
	})
}

func TestLastActivationInTheFutureStopsTheActivationsUntilAnOperatorCorrectsIt(t *testing.T) {
	bubble(t, func(s servers) {
		a := s.start("a")
		s.sleepUntil(time.Minute + time.Second)
		future, err := s.began.AddDate(1, 0, 0).MarshalText()
		require.NoError(s, err)
		require.NoError(s, s.Set(lastPath, []byte(`{"format":1,"activation":"`+string(future)+`"}`)))
		s.sleepUntil(4*time.Minute + time.Second)
		require.Equal(s, []float64{1}, s.minutes())
		now, err := time.Now().MarshalText()
		require.NoError(s, err)
		require.NoError(s, s.Set(lastPath, []byte(`{"format":1,"activation":"`+string(now)+`"}`)))
		s.sleepUntil(6*time.Minute + time.Second)
		require.Equal(s, []float64{1, 5, 6}, s.minutes())
		a.mustStop()
	})
}

func TestFirstLeaderBeginsWithTheFirstActivationAfterItsElection(t *testing.T) {
	bubble(t, func(s servers) {
		s.sleepUntil(10*time.Minute + time.Second)
		a := s.connect("a", nil)
		_, err := a.Last(s.Context())
		require.ErrorIs(s, err, schedule.ErrNoActivation)
		a.run(nil)
		s.sleepUntil(12*time.Minute + time.Second)
		require.Equal(s, []float64{11, 12}, s.minutes())
		a.mustStop()
	})
}

func TestNodeThatHoldsNoActivationOrCanVanishIsRefused(t *testing.T) {
	bubble(t, func(s servers) {
		a := s.connect("a", nil)
		refused := func(why string) {
			_, err := a.Last(s.Context())
			require.ErrorContains(s, err, "last activation: read "+lastPath+": the node")
			require.ErrorContains(s, err, why)
		}
		require.NoError(s, s.Create(lastPath, nil))
		_, err := a.Last(s.Context())
		require.ErrorIs(s, err, schedule.ErrNoActivation)
		for data, why := range map[string]string{
			"x": "is not an activation", "{}": "is not an activation", `{"format":1}`: "it has no time",
			`{"format":2,"activation":"2026-03-29T12:00:00Z"}`: "format 2",
		} {
			require.NoError(s, s.Set(lastPath, []byte(data)))
			refused(why)
		}
		require.NoError(s, s.Set(lastPath, nil))
		require.NoError(s, s.Create(lastPath+"/child", nil))
		refused("container")
		require.NoError(s, s.Delete(lastPath+"/child"))
		require.NoError(s, s.Delete(lastPath))
		_, err = a.client.Conn().Create(lastPath, []byte(`{"format":1,"activation":"2026-03-29T12:00:00Z"}`), zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		require.NoError(s, err)
		refused("ephemeral")
	})
}

func TestFailedJobIsLoggedAndTheScheduleGoesOn(t *testing.T) {
	bubble(t, func(s servers) {
		var log bytes.Buffer
		a := s.connect("a", &schedule.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		b := s.start("b")
		a.run(func(_ context.Context, activation schedule.Activation) error {
			if activation.Time.Sub(s.began) == 3*time.Minute {
				return nil
			}
			return errors.New("disk full")
		})
		b.mustStop() // which led
		s.sleepUntil(4*time.Minute + time.Second)
		require.Equal(s, []float64{1, 2, 3, 4}, s.minutes())
		a.mustStop()
		require.Equal(s, 3, strings.Count(log.String(), `msg="scheduled job failed" path=/jobs/report`), log.String())
		require.Contains(s, log.String(), `error="disk full"`)
	})
}

func TestCancelledJobIsNotLogged(t *testing.T) {
	bubble(t, func(s servers) {
		var log bytes.Buffer
		a := s.connect("a", &schedule.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		a.run(func(ctx context.Context, _ schedule.Activation) error {
			<-ctx.Done()
			return fmt.Errorf("report: %w", context.Cause(ctx))
		})
		s.sleepUntil(time.Minute + time.Second)
		a.mustStop()
		require.Empty(s, log.String())
	})
}

func TestJobCommitsDrainsAndResignsUnderItsTerm(t *testing.T) {
	bubble(t, func(s servers) {
		require.NoError(s, s.Create("/done", nil))
		a := s.connect("a", nil)
		a.run(func(ctx context.Context, activation schedule.Activation) error {
			_, err := activation.Commit(ctx, &zk.SetDataRequest{Path: "/done", Data: []byte(activation.Owner()), Version: -1})
			require.NoError(s, errors.Join(err, activation.Check(ctx), activation.Drain(ctx)))
			leader, err := a.Election().Leader(ctx)
			require.NoError(s, err)
			require.True(s, leader.Draining)
			return activation.Resign(ctx)
		})
		b := s.start("b")
		s.sleepUntil(2*time.Minute + time.Second)
		data, _, err := s.Get("/done")
		require.NoError(s, err)
		require.Equal(s, "a", string(data))
		require.Equal(s, "b", s.list()[1].replica)
		a.mustStop()
		b.mustStop()
	})
}

func TestNodeThatHoldsSomethingElseEndsRun(t *testing.T) {
	bubble(t, func(s servers) {
		require.NoError(s, s.Create("/jobs", nil))
		require.NoError(s, s.Create(lastPath, []byte("theirs")))
		a := s.start("a")
		err := <-a.ended
		require.ErrorContains(s, err, lastPath)
		require.ErrorContains(s, err, "not an activation")
		_, err = a.Last(s.Context())
		require.ErrorContains(s, err, "not an activation")
		data, _, err := s.Get(lastPath)
		require.NoError(s, err)
		require.Equal(s, "theirs", string(data))
		require.Empty(s, s.list())
	})
}

func TestInvalidArgumentIsRefused(t *testing.T) {
	bubble(t, func(s servers) {
		a := s.connect("a", nil)
		minute := schedule.Every(time.Minute)
		for name, create := range map[string]func() (*schedule.Scheduler, error){
			"client":   func() (*schedule.Scheduler, error) { return schedule.New(nil, path, minute, nil) },
			"path":     func() (*schedule.Scheduler, error) { return schedule.New(a.client, "jobs", minute, nil) },
			"schedule": func() (*schedule.Scheduler, error) { return schedule.New(a.client, path, nil, nil) },
			"interval 1ms": func() (*schedule.Scheduler, error) {
				return schedule.New(a.client, path, schedule.Every(time.Millisecond), nil)
			},
			"maximum delay": func() (*schedule.Scheduler, error) {
				return schedule.New(a.client, path, minute, &schedule.Options{MaxDelay: -1})
			},
			"stop timeout": func() (*schedule.Scheduler, error) {
				return schedule.New(a.client, path, minute, &schedule.Options{Election: election.Options{StopTimeout: -1}})
			},
		} {
			_, err := create()
			require.ErrorContains(s, err, name)
			require.ErrorContains(s, err, "new scheduler")
		}
		require.ErrorContains(s, a.Run(s.Context(), nil), "job is nil")
		_, err := s.Children(path)
		require.ErrorContains(s, err, "node does not exist", "nothing was created")
	})
}
