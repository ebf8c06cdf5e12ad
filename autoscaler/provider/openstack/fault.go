package openstack

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
)

// verdict is what an error of the cloud means for an order.
type verdict int

const (
	// unknown is an error that a retry may not meet.
	unknown verdict = iota
	// overQuota means that the project may not have more.
	overQuota
	// unfit means that a server of this flavor cannot be created as requested.
	unfit
	// locked means that nothing works until the credentials are repaired.
	locked
)

// judge returns the meaning of an error of creating a server.
func judge(err error) verdict {
	switch status := statusOf(err); {
	case status == http.StatusUnauthorized:
		return locked
	case status == http.StatusForbidden && aboutQuota(messageOf(err)):
		return overQuota
	case status == http.StatusRequestEntityTooLarge: // of Nova before 2014, and of some clouds still
		return overQuota
	case status == http.StatusForbidden, status == http.StatusBadRequest, status == http.StatusNotFound, status == http.StatusConflict:
		return unfit
	}
	return unknown
}

// aboutQuota distinguishes a quota from a policy, which has the same code.
func aboutQuota(message string) bool {
	message = strings.ToLower(message)
	return strings.Contains(message, "quota") || strings.Contains(message, "maximum number of") || strings.Contains(message, "limit exceeded")
}

// answerOf returns the response that caused an error, nil if there was none. If an expired token could not be renewed,
// it is the response to the renewal.
func answerOf(err error) *gophercloud.ErrUnexpectedResponseCode {
	var renewal *gophercloud.ErrUnableToReauthenticate
	if errors.As(err, &renewal) {
		err = renewal.ErrReauth
	}
	var answer gophercloud.ErrUnexpectedResponseCode
	if errors.As(err, &answer) {
		return &answer
	}
	return nil
}

// statusOf returns the status code of a response, 0 if there was none.
func statusOf(err error) int {
	if answer := answerOf(err); answer != nil {
		return answer.Actual
	}
	return 0
}

// messageOf returns the cloud's error message, without possible secrets. OpenStack's services wrap it as {"someName":
// {"message": "…", "code": 403}}.
func messageOf(err error) string {
	answer := answerOf(err)
	if answer == nil {
		return scrub(err.Error())
	}
	var body map[string]struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(answer.Body, &body) == nil {
		for _, key := range slices.Sorted(maps.Keys(body)) { // there is one
			if message := body[key].Message; message != "" {
				return scrub(message)
			}
		}
	}
	text := strings.Join(strings.Fields(string(answer.Body)), " ")
	return scrub(fmt.Sprintf("HTTP %d %s", answer.Actual, cmp.Or(text, http.StatusText(answer.Actual))))
}

// encoded matches tokens and user data.
var encoded = regexp.MustCompile(`[A-Za-z0-9+/=_-]{48,}`)

// scrub removes possible tokens and user data from a text. Nova repeats user data when it refuses it.
func scrub(text string) string { return encoded.ReplaceAllString(text, "[…]") }

// fault is an error of a request. It contains the response of the cloud, but not the request.
type fault struct {
	what  string
	cause error
}

// Error returns what was being done, and the message of the cloud.
func (f *fault) Error() string { return f.what + ": " + messageOf(f.cause) }

// Unwrap returns the error of the client.
func (f *fault) Unwrap() error { return f.cause }

// explain turns an error of a request into a provider.Refused if a user has to act.
func (l *login) explain(what string, err error) error {
	switch status := statusOf(err); status {
	case 0:
	case http.StatusUnauthorized:
		return &provider.Refused{Reason: v1alpha1.FleetReasonCredentialsRefused, Message: fmt.Sprintf(
			"%s rejects the credentials in %s: %s Correct them, or create new ones.", l.auth.IdentityEndpoint, l.where, sentence(messageOf(err)))}
	case http.StatusForbidden:
		return &provider.Refused{Reason: v1alpha1.FleetReasonForbidden, Message: fmt.Sprintf(
			"the user of %s may not %s: %s Assign a role in the project that allows it, such as member.", l.where, what, sentence(messageOf(err)))}
	}
	var noEndpoint *gophercloud.ErrEndpointNotFound
	if errors.As(err, &noEndpoint) {
		return &provider.Refused{Reason: v1alpha1.FleetReasonEndpointMissing, Message: fmt.Sprintf(
			"cannot %s: the catalogue of %s has no such service in region %q: check spec.openStack.region and region_name in %s",
			what, l.auth.IdentityEndpoint, l.endpoint.Region, l.where)}
	}
	return &fault{what, err}
}

// sentence ends a text with a full stop.
func sentence(text string) string { return strings.TrimRight(text, ". \n") + "." }

// isCredentials reports whether an error means that the credentials are refused.
func isCredentials(err error) bool {
	var refused *provider.Refused
	return errors.As(err, &refused) && refused.Reason == v1alpha1.FleetReasonCredentialsRefused
}
