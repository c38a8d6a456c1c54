// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
)

// A test of the examples runs two generations of its processes.
func TestRolloutOfLeaderOnlyWorkerDoesNotWaitForLeadership(t *testing.T) {
	object, err := decode(t, read(t, "../../examples/rollout/deployment.yaml"))
	require.NoError(t, err)
	deployment, ok := object.(*appsv1.Deployment)
	require.True(t, ok)
	require.Equal(t, deployment.Spec.Selector.MatchLabels, deployment.Spec.Template.Labels)
	update := deployment.Spec.Strategy.RollingUpdate
	require.Zero(t, update.MaxUnavailable.IntValue())
	require.Equal(t, 1, update.MaxSurge.IntValue())
	pod := deployment.Spec.Template.Spec
	require.Greater(t, *pod.TerminationGracePeriodSeconds, int64(15+10), "StopTimeout and ReleaseTimeout of the example")
	c := pod.Containers[0]
	require.Equal(t, "/readyz", c.ReadinessProbe.HTTPGet.Path)
	require.Equal(t, c.Ports[0].Name, c.ReadinessProbe.HTTPGet.Port.StrVal)
	require.Contains(t, c.Args, "-listen=:8080")
	require.Equal(t, int32(8080), c.Ports[0].ContainerPort)
}
