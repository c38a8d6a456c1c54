// SPDX-License-Identifier: Apache-2.0

// Package pagetest contains only tests: the page of the lock service in a real browser, headless Chromium. It is a module of
// its own, so that users of the service do not inherit the browser's driver.
package pagetest
