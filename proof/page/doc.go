// SPDX-License-Identifier: Apache-2.0

// Package page contains only tests: the page of the lock service in a real browser, headless Chromium.
package page
