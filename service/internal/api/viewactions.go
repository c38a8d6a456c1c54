// SPDX-License-Identifier: Apache-2.0

package api

import (
	"net/http"

	"github.com/lockkeeper/lockkeeper/service/internal/principal"
)

// viewActions shows the newest administrative actions of all replicas.
func (a *API) viewActions(w http.ResponseWriter, r *http.Request) {
	c := callOf(r.Context())
	if _, p := a.enter(operation{name: "view-actions", role: principal.Admin, everywhere: true}, w, r); p != nil {
		a.refuseView(w, r, p)
		return
	}
	found, err := a.recentActions(r.Context(), c, viewRows)
	if err != nil {
		a.refuseView(w, r, refuseCall(r.Context(), err))
		return
	}
	a.render(w, r, http.StatusOK, "actions", "Forced releases", struct {
		Actions []action
		Back    string
	}{found, home(c.namespace)})
}
