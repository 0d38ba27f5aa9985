"""The service: many analysts over HTTP, under the budgets of its datasets; `chary serve` opens it.

Everything about privacy is in the calls and the core: here is none of it. Needs the extra `service`.
"""
