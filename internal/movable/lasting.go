package movable

import "supercargo.dev/supercargo/api/v1alpha1"

// lasting holds each reason for which a pod is not moved, and whether it lasts as long as the pod. One that does not last
// passes by itself or is removed without the pod, so whoever waits loses nothing. It also lasts if a pod that is killed
// now has nothing to lose, because its work does not run or is about to be deleted.
//
// The reasons are those of [Check] and [Admitted], and those for which an agent refuses a container that still runs.
var lasting = map[string]bool{
	// Of the pod and its owner.
	v1alpha1.MigrationReasonPodNotFound:                     true,
	v1alpha1.MigrationReasonPodReplaced:                     true,
	v1alpha1.MigrationReasonNotOptedIn:                      true,
	v1alpha1.MigrationReasonDeleting:                        true,
	v1alpha1.MigrationReasonNotRunning:                      true, // it has no state
	v1alpha1.MigrationReasonAlreadyMoving:                   false,
	v1alpha1.MigrationReasonBeingMoved:                      false,
	v1alpha1.MigrationReasonPodNotCopyable:                  true,
	v1alpha1.MigrationReasonGangUnsupported:                 true,
	v1alpha1.MigrationReasonStaticPodUnsupported:            true,
	v1alpha1.MigrationReasonOwnerUnsupported:                true,
	v1alpha1.MigrationReasonJobSuspended:                    true,
	v1alpha1.MigrationReasonPodReplacementPolicyUnsupported: true,
	v1alpha1.MigrationReasonScaledDown:                      true,
	v1alpha1.MigrationReasonSelectorUnsupported:             true,
	v1alpha1.MigrationReasonMultipleContainers:              true,
	v1alpha1.MigrationReasonDevicesUnsupported:              true,
	v1alpha1.MigrationReasonRuntimeClassUnsupported:         true,
	v1alpha1.MigrationReasonEmptyDirUnsupported:             true,
	v1alpha1.MigrationReasonVolumeUnsupported:               true,
	v1alpha1.MigrationReasonVolumeNotShared:                 true,
	v1alpha1.MigrationReasonHostNamespaceUnsupported:        true,
	v1alpha1.MigrationReasonUserNamespaceUnsupported:        true,
	v1alpha1.MigrationReasonServiceUnsupported:              true,
	v1alpha1.MigrationReasonLivenessProbeTooStrict:          true,
	v1alpha1.MigrationReasonStartupProbePending:             false,

	// Of the nodes: one may be repaired or added, and an agent reports when it has started.
	v1alpha1.MigrationReasonNodeGone:         true, // so is the pod
	v1alpha1.MigrationReasonNodeNotReady:     false,
	v1alpha1.MigrationReasonAgentMissing:     false,
	v1alpha1.MigrationReasonNoBackend:        true,
	v1alpha1.MigrationReasonTargetUnsuitable: false,

	// Of the API server.
	v1alpha1.MigrationReasonQuotaExceeded:      false,
	v1alpha1.MigrationReasonNotAdmitted:        true,
	v1alpha1.MigrationReasonPodChanged:         true,
	v1alpha1.MigrationReasonImagesAlwaysPulled: true,

	// Of the agent on the pod's node.
	v1alpha1.MigrationReasonNotSupported:       true,
	v1alpha1.MigrationReasonForeignContainer:   true,
	v1alpha1.MigrationReasonTooLarge:           true,
	v1alpha1.MigrationReasonNoRoom:             false,
	v1alpha1.MigrationReasonOpenConnections:    false,
	v1alpha1.MigrationReasonAddressUnsupported: true,
	v1alpha1.MigrationReasonVolumeFilesOpen:    false,
	v1alpha1.MigrationReasonFileLocksHeld:      false,
}

// Lasts reports whether the pod can never be moved if it is refused for that reason. An unknown reason, such as that of
// a later agent, is taken for one that passes.
func Lasts(reason string) bool { return lasting[reason] }

// Lasts reports whether the refusal holds as long as the pod.
func (r Refusal) Lasts() bool { return Lasts(r.Reason) }

// Split returns the refusals that last and those that pass, each in their order.
func Split(refusals []Refusal) (lasting, passing []Refusal) {
	for _, r := range refusals {
		if r.Lasts() {
			lasting = append(lasting, r)
		} else {
			passing = append(passing, r)
		}
	}
	return lasting, passing
}
