// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"bytes"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// manifests are the objects of the folder kubernetes.
type manifests struct {
	deployment *appsv1.Deployment
	service    *corev1.Service
	budget     *policyv1.PodDisruptionBudget
	configMap  *corev1.ConfigMap
	secrets    map[string]*corev1.Secret
}

// decode decodes an object as the API server does with strict validation: a field that its type does not have is an error.
func decode(t *testing.T, content []byte) (runtime.Object, error) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{appsv1.AddToScheme, corev1.AddToScheme, policyv1.AddToScheme} {
		require.NoError(t, add(scheme))
	}
	object, _, err := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer().Decode(content, nil, nil)
	return object, err
}

func load(t *testing.T) *manifests {
	t.Helper()
	m := &manifests{secrets: map[string]*corev1.Secret{}}
	files, err := filepath.Glob("kubernetes/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		if filepath.Base(file) == "kustomization.yaml" { // for kubectl, not for the API server
			continue
		}
		for document := range bytes.SplitSeq(read(t, file), []byte("\n---\n")) {
			object, err := decode(t, document)
			require.NoError(t, err, file)
			switch o := object.(type) {
			case *appsv1.Deployment:
				m.deployment = o
			case *corev1.Service:
				m.service = o
			case *policyv1.PodDisruptionBudget:
				m.budget = o
			case *corev1.ConfigMap:
				m.configMap = o
			case *corev1.Secret:
				m.secrets[o.Name] = o
			default:
				require.Fail(t, "unexpected object", "%s: %T", file, object)
			}
		}
	}
	require.NotNil(t, m.deployment)
	require.NotNil(t, m.service)
	require.NotNil(t, m.budget)
	require.NotNil(t, m.configMap)
	require.Len(t, m.deployment.Spec.Template.Spec.Containers, 1)
	return m
}

func (m *manifests) pod() *corev1.PodSpec { return &m.deployment.Spec.Template.Spec }

func (m *manifests) container() *corev1.Container { return &m.pod().Containers[0] }

// place writes the files of the pod's only volume to a folder, and returns the folder's path in the container.
func (m *manifests) place(t *testing.T, folder string) (mountPath string) {
	t.Helper()
	require.Len(t, m.pod().Volumes, 1)
	require.Len(t, m.container().VolumeMounts, 1)
	volume, mount := m.pod().Volumes[0], m.container().VolumeMounts[0]
	require.Equal(t, volume.Name, mount.Name)
	require.Empty(t, mount.SubPath, "kubelet does not update a file that is mounted by subPath")
	for _, source := range volume.Projected.Sources {
		var items []corev1.KeyToPath
		var content map[string]string
		switch {
		case source.ConfigMap != nil:
			require.Equal(t, m.configMap.Name, source.ConfigMap.Name)
			items, content = source.ConfigMap.Items, m.configMap.Data
		case source.Secret != nil:
			require.Contains(t, m.secrets, source.Secret.Name)
			items, content = source.Secret.Items, m.secrets[source.Secret.Name].StringData
		}
		for _, item := range items {
			require.Contains(t, content, item.Key)
			write(t, folder, item.Path, content[item.Key])
		}
	}
	return mount.MountPath
}

func TestManifestWithUnknownFieldIsRefused(t *testing.T) {
	content := string(read(t, "kubernetes/deployment.yaml"))
	for field, wrong := range map[string]string{"readinessProbe:": "readynessProbe:", "runAsNonRoot:": "runAsNonroot:"} {
		require.Contains(t, content, field)
		_, err := decode(t, []byte(strings.ReplaceAll(content, field, wrong)))
		require.ErrorContains(t, err, strings.TrimSuffix(wrong, ":"))
	}
}

func TestManifestsBelongTogether(t *testing.T) {
	m := load(t)
	pods := labels.Set(m.deployment.Spec.Template.Labels)
	require.True(t, maps.Equal(m.deployment.Spec.Selector.MatchLabels, pods))
	require.True(t, maps.Equal(m.budget.Spec.Selector.MatchLabels, pods))
	require.True(t, maps.Equal(m.service.Spec.Selector, pods))
	require.Greater(t, *m.deployment.Spec.Replicas, int32(m.budget.Spec.MaxUnavailable.IntValue()), "a replica is left")

	c := m.container()
	require.Len(t, c.Ports, 1)
	require.Contains(t, c.Args, "--listen=:8443")
	require.Equal(t, int32(8443), c.Ports[0].ContainerPort)
	port := intstr.FromString(c.Ports[0].Name)
	require.Equal(t, port, m.service.Spec.Ports[0].TargetPort)
	for _, probe := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
		require.Equal(t, port, probe.HTTPGet.Port)
		require.Equal(t, corev1.URISchemeHTTPS, probe.HTTPGet.Scheme)
	}
	require.Equal(t, "/healthz", c.StartupProbe.HTTPGet.Path)
	require.Equal(t, "/healthz", c.LivenessProbe.HTTPGet.Path, "a lost quorum restarts no replica")
	require.Equal(t, "/readyz", c.ReadinessProbe.HTTPGet.Path)
	require.Len(t, c.Env, 2)
	heap, err := resource.ParseQuantity(strings.TrimSuffix(c.Env[1].Value, "B"))
	require.NoError(t, err)
	require.Equal(t, "GOMEMLIMIT", c.Env[1].Name)
	require.Negative(t, heap.Cmp(*c.Resources.Limits.Memory()), "the collector must run before the kernel ends the process")
	require.Equal(t, "LOCKKEEPER_SERVERS", c.Env[0].Name)
	from := c.Env[0].ValueFrom.ConfigMapKeyRef
	require.Equal(t, m.configMap.Name, from.Name)
	require.Contains(t, m.configMap.Data, from.Key)
}

func TestPodHasNoPrivileges(t *testing.T) {
	m := load(t)
	pod, c := m.pod(), m.container()
	require.True(t, *pod.SecurityContext.RunAsNonRoot)
	require.Contains(t, string(read(t, "Dockerfile")), "USER 65532:65532")
	require.Equal(t, int64(65532), *pod.SecurityContext.RunAsUser, "the image's user")
	require.Equal(t, int64(65532), *pod.SecurityContext.FSGroup, "the replica can read its files")
	require.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, pod.SecurityContext.SeccompProfile.Type)
	require.False(t, *pod.AutomountServiceAccountToken)
	require.True(t, *c.SecurityContext.ReadOnlyRootFilesystem)
	require.False(t, *c.SecurityContext.AllowPrivilegeEscalation)
	require.Equal(t, []corev1.Capability{"ALL"}, c.SecurityContext.Capabilities.Drop)
}

func TestPodStartsWithPlaceholdersReplacedAndStopsInTime(t *testing.T) {
	t.Parallel()
	m := load(t)
	m.configMap.Data["principals.json"] = principals()
	m.secrets["lockkeeper"].StringData = map[string]string{"token-keys": tokenKey(), "zookeeper-auth": "service:password"}
	cert, key := certificate(t)
	m.secrets["lockkeeper-tls"].StringData = map[string]string{"tls.crt": cert, "tls.key": key}
	folder := t.TempDir()
	args := arguments(t, m.container().Args, m.place(t, folder), folder)

	grace := time.Duration(*m.pod().TerminationGracePeriodSeconds)*time.Second -
		time.Duration(m.container().Lifecycle.PreStop.Sleep.Seconds)*time.Second
	stdout := requireServes(t, args, m.container().ReadinessProbe.HTTPGet.Path, grace)
	require.Contains(t, stdout, `"action":"acquire"`, "the audit is on standard output")
}

func TestPodRefusesToStartWithPlaceholders(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t)
	replaced := []func(*manifests){
		func(m *manifests) { m.configMap.Data["principals.json"] = principals() },
		func(m *manifests) { m.secrets["lockkeeper"].StringData["token-keys"] = tokenKey() },
		func(m *manifests) {
			m.secrets["lockkeeper-tls"].StringData = map[string]string{"tls.crt": cert, "tls.key": key}
		},
		func(m *manifests) { m.secrets["lockkeeper"].StringData["zookeeper-auth"] = "service:password" },
	}
	for left, file := range []string{"principals.json", "token-keys", "tls.crt", "zookeeper-auth"} {
		m := load(t)
		for i, replace := range replaced {
			if i != left {
				replace(m)
			}
		}
		folder := t.TempDir()
		requireRefuses(t, arguments(t, m.container().Args, m.place(t, folder), folder), filepath.Join(folder, file))
	}
}
