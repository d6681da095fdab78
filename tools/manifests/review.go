package main

import (
	"errors"
	"fmt"
	"slices"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
)

// manifest is the objects of a file, and what was found wrong with them.
type manifest struct {
	objects []meta.Object
	pods    []core.PodTemplateSpec
	faults  []error
}

func (m *manifest) wrong(o meta.Object, format string, args ...any) {
	m.faults = append(m.faults, fmt.Errorf("%T %s: %s", o, o.GetName(), fmt.Sprintf(format, args...)))
}

// review returns what types cannot say: names that lead nowhere, and rights that no node needs.
func review(objects []meta.Object) error {
	m := &manifest{objects: objects}
	seen := map[string]bool{}
	for _, o := range objects {
		name := fmt.Sprintf("%T %s", o, o.GetName())
		if seen[name] {
			m.wrong(o, "it is there twice")
		}
		seen[name] = true
		if faults := validation.IsDNS1123Label(o.GetName()); len(faults) != 0 {
			m.wrong(o, "its name: %v", faults)
		}
		for key, value := range o.GetLabels() {
			if faults := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...); len(faults) != 0 {
				m.wrong(o, "label %s: %q: %v", key, value, faults)
			}
		}
	}
	for _, o := range objects {
		m.workload(o)
	}
	for _, o := range objects {
		m.reference(o)
	}
	return errors.Join(m.faults...)
}

// workload looks at what makes pods.
func (m *manifest) workload(o meta.Object) {
	switch w := o.(type) {
	case *apps.Deployment:
		m.template(o, w.Spec.Selector, w.Spec.Template, nil)
	case *apps.StatefulSet:
		m.template(o, w.Spec.Selector, w.Spec.Template, w.Spec.VolumeClaimTemplates)
		if !slices.ContainsFunc(m.objects, func(o meta.Object) bool {
			s, ok := o.(*core.Service)
			return ok && s.Name == w.Spec.ServiceName && s.Spec.ClusterIP == core.ClusterIPNone
		}) {
			m.wrong(o, "there is no headless service %q", w.Spec.ServiceName)
		}
	case *core.Pod:
		m.pod(o, w.Spec, nil)
	}
}

func (m *manifest) template(o meta.Object, selector *meta.LabelSelector, t core.PodTemplateSpec,
	claims []core.PersistentVolumeClaim) {
	m.pods = append(m.pods, t)
	if !selects(selector, t.Labels) {
		m.wrong(o, "its selector does not select its pods")
	}
	m.pod(o, t.Spec, claims)
	c := t.Spec.Containers[0]
	for what, p := range map[string]*core.Probe{"liveness": c.LivenessProbe, "readiness": c.ReadinessProbe, "startup": c.StartupProbe} {
		if p == nil || p.HTTPGet == nil || !portOf(t, p.HTTPGet.Port) {
			m.wrong(o, "no %sProbe of a port that it has", what)
		}
	}
	if c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().IsZero() {
		m.wrong(o, "resources: want requests of cpu and memory, and a limit of memory")
	}
	for _, s := range t.Spec.TopologySpreadConstraints {
		if !selects(s.LabelSelector, t.Labels) {
			m.wrong(o, "topologySpreadConstraints: %s does not select its pods", s.TopologyKey)
		}
	}
}

// pod looks at the rights of a pod, and at its volumes.
func (m *manifest) pod(o meta.Object, p core.PodSpec, claims []core.PersistentVolumeClaim) {
	s := p.SecurityContext
	switch {
	case s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.RunAsUser == nil || *s.RunAsUser == 0:
		m.wrong(o, "it may run as root: want runAsNonRoot and runAsUser")
	case s.SeccompProfile == nil || s.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault:
		m.wrong(o, "want seccompProfile RuntimeDefault")
	}
	if p.AutomountServiceAccountToken == nil || *p.AutomountServiceAccountToken {
		m.wrong(o, "want automountServiceAccountToken: false")
	}
	if p.HostNetwork || p.HostPID || p.HostIPC {
		m.wrong(o, "it is in a namespace of its host")
	}
	var volumes []string
	for _, v := range p.Volumes {
		volumes = append(volumes, v.Name)
		if v.HostPath != nil {
			m.wrong(o, "volume %s is a folder of its host", v.Name)
		}
	}
	for _, c := range claims {
		volumes = append(volumes, c.Name)
	}
	if len(p.Containers) != 1 || len(p.InitContainers) != 0 {
		m.wrong(o, "want one container")
	}
	for _, c := range p.Containers {
		m.container(o, c, volumes)
	}
}

func (m *manifest) container(o meta.Object, c core.Container, volumes []string) {
	s := c.SecurityContext
	if s == nil || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || s.ReadOnlyRootFilesystem == nil ||
		!*s.ReadOnlyRootFilesystem || s.Privileged != nil || s.Capabilities == nil || len(s.Capabilities.Add) != 0 ||
		!slices.Equal(s.Capabilities.Drop, []core.Capability{"ALL"}) {
		m.wrong(o, "%s: want no privilege escalation, a read-only root file system, and all capabilities dropped", c.Name)
	}
	mounted := map[string]bool{}
	for _, v := range c.VolumeMounts {
		if !slices.Contains(volumes, v.Name) || mounted[v.MountPath] {
			m.wrong(o, "%s: %s is mounted at %s: there is no such volume, or something is there already", c.Name, v.Name, v.MountPath)
		}
		mounted[v.MountPath] = true
	}
	seen := map[string]bool{}
	for _, e := range c.Env {
		if seen[e.Name] {
			m.wrong(o, "%s: variable %s is there twice", c.Name, e.Name)
		}
		seen[e.Name] = true
		if e.Value != "" && e.ValueFrom != nil {
			m.wrong(o, "%s: variable %s has a value and a valueFrom", c.Name, e.Name)
		}
	}
}

// reference looks at what selects pods, or names their ports.
func (m *manifest) reference(o meta.Object) {
	switch r := o.(type) {
	case *core.Service:
		for _, port := range r.Spec.Ports {
			if !m.any(func(t core.PodTemplateSpec) bool {
				return selects(&meta.LabelSelector{MatchLabels: r.Spec.Selector}, t.Labels) && portOf(t, port.TargetPort)
			}) {
				m.wrong(o, "port %s: no pod that it selects has %s", port.Name, port.TargetPort.String())
			}
		}
	case *policy.PodDisruptionBudget:
		m.selecting(o, r.Spec.Selector)
	case *networking.NetworkPolicy:
		m.selecting(o, &r.Spec.PodSelector)
		for _, in := range r.Spec.Ingress {
			if len(in.From) == 0 {
				m.wrong(o, "ingress from everywhere")
			}
			for _, port := range in.Ports {
				if !m.any(func(t core.PodTemplateSpec) bool { return portOf(t, *port.Port) }) {
					m.wrong(o, "ingress: no pod has port %s", port.Port.String())
				}
			}
		}
	case *monitoring.ServiceMonitor:
		found := 0
		for _, other := range m.objects {
			if s, ok := other.(*core.Service); ok && selects(&r.Spec.Selector, s.Labels) {
				found++
				if s.Labels[r.Spec.JobLabel] == "" {
					m.wrong(o, "service %s has no label %s", s.Name, r.Spec.JobLabel)
				}
			}
		}
		if found != 1 {
			m.wrong(o, "it selects %d services: each node is to be scraped once", found)
		}
	}
}

func (m *manifest) selecting(o meta.Object, selector *meta.LabelSelector) {
	if !m.any(func(t core.PodTemplateSpec) bool { return selects(selector, t.Labels) }) {
		m.wrong(o, "it selects no pod")
	}
}

func (m *manifest) any(is func(core.PodTemplateSpec) bool) bool {
	return slices.ContainsFunc(m.pods, is)
}

// selects reports whether a selector, which is not one of everything, selects labels.
func selects(selector *meta.LabelSelector, of map[string]string) bool {
	s, err := meta.LabelSelectorAsSelector(selector)
	return err == nil && !s.Empty() && s.Matches(labels.Set(of))
}

// portOf reports whether pods have a port, by its name or number.
func portOf(t core.PodTemplateSpec, port intstr.IntOrString) bool {
	return slices.ContainsFunc(t.Spec.Containers[0].Ports, func(p core.ContainerPort) bool {
		return port.Type == intstr.String && p.Name == port.StrVal || port.Type == intstr.Int && p.ContainerPort == port.IntVal
	})
}
