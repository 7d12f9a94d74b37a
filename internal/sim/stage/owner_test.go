package stage_test

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

func ownerJob() metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "batch/v1", Kind: "Job", Name: "j", UID: "u"}
}
