// Written by npm run docs.

export interface paths {
    "/openapi.json": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Read this description of the API */
        get: {
            parameters: {
                query?: never;
                header?: {
                    "if-none-match"?: string;
                };
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": Record<string, never>;
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/push": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Open the push socket, as a gateway (a WebSocket) */
        get: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                101: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content?: never;
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/metrics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Read the metrics, for Prometheus */
        get: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "text/plain": string;
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/healthz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Ask whether the process runs */
        get: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": {
                            /** @enum {string} */
                            status: "ok";
                        };
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/readyz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Ask whether the process can do its work */
        get: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Readiness"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/apps": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the apps that your token is for, by name */
        get: {
            parameters: {
                query?: {
                    after?: string;
                    limit?: number;
                };
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["AppPage"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/apps/{app}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Read an app */
        get: {
            parameters: {
                query?: never;
                header?: {
                    "if-none-match"?: string;
                };
                path: {
                    app: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        etag?: string;
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["App"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        /** Create an app or change its settings */
        put: {
            parameters: {
                query?: {
                    /** @example 5s */
                    wait?: string;
                    dryRun?: boolean;
                };
                header?: {
                    "if-match"?: string;
                    "if-none-match"?: string;
                };
                path: {
                    app: string;
                };
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": {
                        realm?: {
                            hosts?: string[];
                            paths?: string[];
                            redirects?: string[];
                        } | null;
                        bounds?: {
                            policies?: number;
                            bytes?: number;
                            steps?: number;
                            limits?: number;
                            kinds?: number;
                            templates?: number;
                            templateBytes?: number;
                            bans?: number;
                            banBytes?: number;
                            tokens?: number;
                            consumers?: number;
                            networkLists?: number;
                            networkBytes?: number;
                        } | null;
                        exempt?: {
                            cidrs?: string[];
                            keys?: {
                                part: string;
                                pattern: string;
                            }[];
                        } | null;
                    };
                    "application/yaml": {
                        realm?: {
                            hosts?: string[];
                            paths?: string[];
                            redirects?: string[];
                        } | null;
                        bounds?: {
                            policies?: number;
                            bytes?: number;
                            steps?: number;
                            limits?: number;
                            kinds?: number;
                            templates?: number;
                            templateBytes?: number;
                            bans?: number;
                            banBytes?: number;
                            tokens?: number;
                            consumers?: number;
                            networkLists?: number;
                            networkBytes?: number;
                        } | null;
                        exempt?: {
                            cidrs?: string[];
                            keys?: {
                                part: string;
                                pattern: string;
                            }[];
                        } | null;
                    };
                };
            };
            responses: {
                200: {
                    headers: {
                        etag?: string;
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["AppChange"];
                    };
                };
                201: {
                    headers: {
                        etag?: string;
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["AppChange"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        post?: never;
        /** Delete an app without policies, templates and lists of networks, with its bans and tokens */
        delete: {
            parameters: {
                query?: {
                    /** @example 5s */
                    wait?: string;
                    dryRun?: boolean;
                };
                header?: {
                    "if-match"?: string;
                    "if-none-match"?: string;
                };
                path: {
                    app: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Change"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/apps/{app}/policies": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List an app's policies by name */
        get: {
            parameters: {
                query?: {
                    after?: string;
                    limit?: number;
                };
                header?: never;
                path: {
                    app: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["PolicyPage"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        /** Store many policies, all or none */
        put: {
            parameters: {
                query?: {
                    /** @example 5s */
                    wait?: string;
                    dryRun?: boolean;
                    prune?: boolean;
                    allowEmpty?: boolean;
                    strict?: boolean;
                };
                header?: {
                    "if-match"?: string;
                    "if-none-match"?: string;
                };
                path: {
                    app: string;
                };
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/jsonl": {
                        name: string;
                        /** @default  */
                        description?: string;
                        /**
                         * @default enforce
                         * @enum {string}
                         */
                        mode?: "enforce" | "shadow" | "off";
                        /** @default 0 */
                        priority?: number;
                        match?: {
                            hosts?: string[];
                            paths?: string[];
                            methods?: string[];
                            headers?: {
                                [key: string]: string[];
                            };
                        };
                        /** @default [] */
                        key?: string[];
                        secret?: {
                            [key: string]: boolean;
                        };
                        /**
                         * @default skip
                         * @enum {string}
                         */
                        onMissingKey?: "skip" | "deny" | "shared";
                        limits?: {
                            /** @default default */
                            name?: string;
                            /** @enum {string} */
                            algorithm: "token-bucket" | "fixed-window" | "sliding-window" | "sliding-log" | "leaky-bucket" | "concurrency";
                            quota: number;
                            window?: string | ("lifetime" | "hour" | "day" | "week" | "month" | "year");
                            timezone?: string;
                            anchor?: number | string;
                            burst?: number;
                            initial?: number;
                            /**
                             * @example 500ms
                             * @example 30s
                             * @example 1d
                             */
                            warmUp?: string;
                            /**
                             * @example 500ms
                             * @example 30s
                             * @example 1d
                             */
                            precision?: string;
                            /**
                             * @example 500ms
                             * @example 30s
                             * @example 1d
                             */
                            maxDelay?: string;
                            /**
                             * @example 500ms
                             * @example 30s
                             * @example 1d
                             */
                            ttl?: string;
                        }[];
                        plans?: {
                            [key: string]: {
                                /** @default default */
                                name?: string;
                                /** @enum {string} */
                                algorithm: "token-bucket" | "fixed-window" | "sliding-window" | "sliding-log" | "leaky-bucket" | "concurrency";
                                quota: number;
                                window?: string | ("lifetime" | "hour" | "day" | "week" | "month" | "year");
                                timezone?: string;
                                anchor?: number | string;
                                burst?: number;
                                initial?: number;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                warmUp?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                precision?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                maxDelay?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                ttl?: string;
                            }[];
                        };
                        planBy?: string;
                        defaultPlan?: string;
                        /** @default 1 */
                        cost?: (number | {
                            from: string;
                            /** @default 1 */
                            default?: number;
                            max?: number;
                        }) | {
                            template: string;
                        };
                        /**
                         * @default node
                         * @enum {string}
                         */
                        scope?: "node" | "cluster";
                        /**
                         * @default exact
                         * @enum {string}
                         */
                        consistency?: "exact" | "leased";
                        /**
                         * @default local
                         * @enum {string}
                         */
                        onStoreFailure?: "local" | "allow" | "deny";
                        /**
                         * @example 500ms
                         * @example 30s
                         * @example 1d
                         */
                        maxStoreWait?: string;
                        onLimit?: {
                            /**
                             * @default reject
                             * @enum {string}
                             */
                            action?: "reject" | "delay" | "degrade" | "tag";
                            /** @default 429 */
                            status?: number;
                            body?: string;
                            /** @default [] */
                            headers?: string[];
                            /**
                             * @example 500ms
                             * @example 30s
                             * @example 1d
                             */
                            maxDelay?: string;
                            maxWaiting?: number;
                            uri?: string;
                            location?: string;
                            response?: {
                                /** @default 200 */
                                status?: number;
                                /** @default  */
                                body?: string;
                                /** @default [] */
                                headers?: string[];
                            };
                            header?: string;
                        } | {
                            template: string;
                        };
                        sharedWith?: string[];
                        overrides?: {
                            key: string[];
                            limits?: {
                                /** @default default */
                                name?: string;
                                /** @enum {string} */
                                algorithm: "token-bucket" | "fixed-window" | "sliding-window" | "sliding-log" | "leaky-bucket" | "concurrency";
                                quota: number;
                                window?: string | ("lifetime" | "hour" | "day" | "week" | "month" | "year");
                                timezone?: string;
                                anchor?: number | string;
                                burst?: number;
                                initial?: number;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                warmUp?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                precision?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                maxDelay?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                ttl?: string;
                            }[];
                            /** @enum {string} */
                            mode?: "enforce" | "shadow" | "off";
                        }[];
                        exempt?: {
                            cidrs?: string[];
                            keys?: string[][];
                        };
                        schedule?: {
                            timezone: string;
                            windows: {
                                days?: ("mon" | "tue" | "wed" | "thu" | "fri" | "sat" | "sun")[];
                                from: string;
                                to: string;
                            }[];
                        };
                        template?: string;
                    };
                    "application/x-ndjson": {
                        name: string;
                        /** @default  */
                        description?: string;
                        /**
                         * @default enforce
                         * @enum {string}
                         */
                        mode?: "enforce" | "shadow" | "off";
                        /** @default 0 */
                        priority?: number;
                        match?: {
                            hosts?: string[];
                            paths?: string[];
                            methods?: string[];
                            headers?: {
                                [key: string]: string[];
                            };
                        };
                        /** @default [] */
                        key?: string[];
                        secret?: {
                            [key: string]: boolean;
                        };
                        /**
                         * @default skip
                         * @enum {string}
                         */
                        onMissingKey?: "skip" | "deny" | "shared";
                        limits?: {
                            /** @default default */
                            name?: string;
                            /** @enum {string} */
                            algorithm: "token-bucket" | "fixed-window" | "sliding-window" | "sliding-log" | "leaky-bucket" | "concurrency";
                            quota: number;
                            window?: string | ("lifetime" | "hour" | "day" | "week" | "month" | "year");
                            timezone?: string;
                            anchor?: number | string;
                            burst?: number;
                            initial?: number;
                            /**
                             * @example 500ms
                             * @example 30s
                             * @example 1d
                             */
                            warmUp?: string;
                            /**
                             * @example 500ms
                             * @example 30s
                             * @example 1d
                             */
                            precision?: string;
                            /**
                             * @example 500ms
                             * @example 30s
                             * @example 1d
                             */
                            maxDelay?: string;
                            /**
                             * @example 500ms
                             * @example 30s
                             * @example 1d
                             */
                            ttl?: string;
                        }[];
                        plans?: {
                            [key: string]: {
                                /** @default default */
                                name?: string;
                                /** @enum {string} */
                                algorithm: "token-bucket" | "fixed-window" | "sliding-window" | "sliding-log" | "leaky-bucket" | "concurrency";
                                quota: number;
                                window?: string | ("lifetime" | "hour" | "day" | "week" | "month" | "year");
                                timezone?: string;
                                anchor?: number | string;
                                burst?: number;
                                initial?: number;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                warmUp?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                precision?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                maxDelay?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                ttl?: string;
                            }[];
                        };
                        planBy?: string;
                        defaultPlan?: string;
                        /** @default 1 */
                        cost?: (number | {
                            from: string;
                            /** @default 1 */
                            default?: number;
                            max?: number;
                        }) | {
                            template: string;
                        };
                        /**
                         * @default node
                         * @enum {string}
                         */
                        scope?: "node" | "cluster";
                        /**
                         * @default exact
                         * @enum {string}
                         */
                        consistency?: "exact" | "leased";
                        /**
                         * @default local
                         * @enum {string}
                         */
                        onStoreFailure?: "local" | "allow" | "deny";
                        /**
                         * @example 500ms
                         * @example 30s
                         * @example 1d
                         */
                        maxStoreWait?: string;
                        onLimit?: {
                            /**
                             * @default reject
                             * @enum {string}
                             */
                            action?: "reject" | "delay" | "degrade" | "tag";
                            /** @default 429 */
                            status?: number;
                            body?: string;
                            /** @default [] */
                            headers?: string[];
                            /**
                             * @example 500ms
                             * @example 30s
                             * @example 1d
                             */
                            maxDelay?: string;
                            maxWaiting?: number;
                            uri?: string;
                            location?: string;
                            response?: {
                                /** @default 200 */
                                status?: number;
                                /** @default  */
                                body?: string;
                                /** @default [] */
                                headers?: string[];
                            };
                            header?: string;
                        } | {
                            template: string;
                        };
                        sharedWith?: string[];
                        overrides?: {
                            key: string[];
                            limits?: {
                                /** @default default */
                                name?: string;
                                /** @enum {string} */
                                algorithm: "token-bucket" | "fixed-window" | "sliding-window" | "sliding-log" | "leaky-bucket" | "concurrency";
                                quota: number;
                                window?: string | ("lifetime" | "hour" | "day" | "week" | "month" | "year");
                                timezone?: string;
                                anchor?: number | string;
                                burst?: number;
                                initial?: number;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                warmUp?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                precision?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                maxDelay?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                ttl?: string;
                            }[];
                            /** @enum {string} */
                            mode?: "enforce" | "shadow" | "off";
                        }[];
                        exempt?: {
                            cidrs?: string[];
                            keys?: string[][];
                        };
                        schedule?: {
                            timezone: string;
                            windows: {
                                days?: ("mon" | "tue" | "wed" | "thu" | "fri" | "sat" | "sun")[];
                                from: string;
                                to: string;
                            }[];
                        };
                        template?: string;
                    };
                    "application/yaml": {
                        name: string;
                        /** @default  */
                        description?: string;
                        /**
                         * @default enforce
                         * @enum {string}
                         */
                        mode?: "enforce" | "shadow" | "off";
                        /** @default 0 */
                        priority?: number;
                        match?: {
                            hosts?: string[];
                            paths?: string[];
                            methods?: string[];
                            headers?: {
                                [key: string]: string[];
                            };
                        };
                        /** @default [] */
                        key?: string[];
                        secret?: {
                            [key: string]: boolean;
                        };
                        /**
                         * @default skip
                         * @enum {string}
                         */
                        onMissingKey?: "skip" | "deny" | "shared";
                        limits?: {
                            /** @default default */
                            name?: string;
                            /** @enum {string} */
                            algorithm: "token-bucket" | "fixed-window" | "sliding-window" | "sliding-log" | "leaky-bucket" | "concurrency";
                            quota: number;
                            window?: string | ("lifetime" | "hour" | "day" | "week" | "month" | "year");
                            timezone?: string;
                            anchor?: number | string;
                            burst?: number;
                            initial?: number;
                            /**
                             * @example 500ms
                             * @example 30s
                             * @example 1d
                             */
                            warmUp?: string;
                            /**
                             * @example 500ms
                             * @example 30s
                             * @example 1d
                             */
                            precision?: string;
                            /**
                             * @example 500ms
                             * @example 30s
                             * @example 1d
                             */
                            maxDelay?: string;
                            /**
                             * @example 500ms
                             * @example 30s
                             * @example 1d
                             */
                            ttl?: string;
                        }[];
                        plans?: {
                            [key: string]: {
                                /** @default default */
                                name?: string;
                                /** @enum {string} */
                                algorithm: "token-bucket" | "fixed-window" | "sliding-window" | "sliding-log" | "leaky-bucket" | "concurrency";
                                quota: number;
                                window?: string | ("lifetime" | "hour" | "day" | "week" | "month" | "year");
                                timezone?: string;
                                anchor?: number | string;
                                burst?: number;
                                initial?: number;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                warmUp?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                precision?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                maxDelay?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                ttl?: string;
                            }[];
                        };
                        planBy?: string;
                        defaultPlan?: string;
                        /** @default 1 */
                        cost?: (number | {
                            from: string;
                            /** @default 1 */
                            default?: number;
                            max?: number;
                        }) | {
                            template: string;
                        };
                        /**
                         * @default node
                         * @enum {string}
                         */
                        scope?: "node" | "cluster";
                        /**
                         * @default exact
                         * @enum {string}
                         */
                        consistency?: "exact" | "leased";
                        /**
                         * @default local
                         * @enum {string}
                         */
                        onStoreFailure?: "local" | "allow" | "deny";
                        /**
                         * @example 500ms
                         * @example 30s
                         * @example 1d
                         */
                        maxStoreWait?: string;
                        onLimit?: {
                            /**
                             * @default reject
                             * @enum {string}
                             */
                            action?: "reject" | "delay" | "degrade" | "tag";
                            /** @default 429 */
                            status?: number;
                            body?: string;
                            /** @default [] */
                            headers?: string[];
                            /**
                             * @example 500ms
                             * @example 30s
                             * @example 1d
                             */
                            maxDelay?: string;
                            maxWaiting?: number;
                            uri?: string;
                            location?: string;
                            response?: {
                                /** @default 200 */
                                status?: number;
                                /** @default  */
                                body?: string;
                                /** @default [] */
                                headers?: string[];
                            };
                            header?: string;
                        } | {
                            template: string;
                        };
                        sharedWith?: string[];
                        overrides?: {
                            key: string[];
                            limits?: {
                                /** @default default */
                                name?: string;
                                /** @enum {string} */
                                algorithm: "token-bucket" | "fixed-window" | "sliding-window" | "sliding-log" | "leaky-bucket" | "concurrency";
                                quota: number;
                                window?: string | ("lifetime" | "hour" | "day" | "week" | "month" | "year");
                                timezone?: string;
                                anchor?: number | string;
                                burst?: number;
                                initial?: number;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                warmUp?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                precision?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                maxDelay?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                ttl?: string;
                            }[];
                            /** @enum {string} */
                            mode?: "enforce" | "shadow" | "off";
                        }[];
                        exempt?: {
                            cidrs?: string[];
                            keys?: string[][];
                        };
                        schedule?: {
                            timezone: string;
                            windows: {
                                days?: ("mon" | "tue" | "wed" | "thu" | "fri" | "sat" | "sun")[];
                                from: string;
                                to: string;
                            }[];
                        };
                        template?: string;
                    };
                };
            };
            responses: {
                200: {
                    headers: {
                        etag?: string;
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["PoliciesChange"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/apps/{app}/policies/validate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Check a document without storing it */
        post: {
            parameters: {
                query?: {
                    strict?: boolean;
                };
                header?: never;
                path: {
                    app: string;
                };
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": {
                        name?: string;
                        /** @default  */
                        description?: string;
                        /**
                         * @default enforce
                         * @enum {string}
                         */
                        mode?: "enforce" | "shadow" | "off";
                        /** @default 0 */
                        priority?: number;
                        match?: {
                            hosts?: string[];
                            paths?: string[];
                            methods?: string[];
                            headers?: {
                                [key: string]: string[];
                            };
                        };
                        /** @default [] */
                        key?: string[];
                        secret?: {
                            [key: string]: boolean;
                        };
                        /**
                         * @default skip
                         * @enum {string}
                         */
                        onMissingKey?: "skip" | "deny" | "shared";
                        limits?: {
                            /** @default default */
                            name?: string;
                            /** @enum {string} */
                            algorithm: "token-bucket" | "fixed-window" | "sliding-window" | "sliding-log" | "leaky-bucket" | "concurrency";
                            quota: number;
                            window?: string | ("lifetime" | "hour" | "day" | "week" | "month" | "year");
                            timezone?: string;
                            anchor?: number | string;
                            burst?: number;
                            initial?: number;
                            /**
                             * @example 500ms
                             * @example 30s
                             * @example 1d
                             */
                            warmUp?: string;
                            /**
                             * @example 500ms
                             * @example 30s
                             * @example 1d
                             */
                            precision?: string;
                            /**
                             * @example 500ms
                             * @example 30s
                             * @example 1d
                             */
                            maxDelay?: string;
                            /**
                             * @example 500ms
                             * @example 30s
                             * @example 1d
                             */
                            ttl?: string;
                        }[];
                        plans?: {
                            [key: string]: {
                                /** @default default */
                                name?: string;
                                /** @enum {string} */
                                algorithm: "token-bucket" | "fixed-window" | "sliding-window" | "sliding-log" | "leaky-bucket" | "concurrency";
                                quota: number;
                                window?: string | ("lifetime" | "hour" | "day" | "week" | "month" | "year");
                                timezone?: string;
                                anchor?: number | string;
                                burst?: number;
                                initial?: number;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                warmUp?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                precision?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                maxDelay?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                ttl?: string;
                            }[];
                        };
                        planBy?: string;
                        defaultPlan?: string;
                        /** @default 1 */
                        cost?: (number | {
                            from: string;
                            /** @default 1 */
                            default?: number;
                            max?: number;
                        }) | {
                            template: string;
                        };
                        /**
                         * @default node
                         * @enum {string}
                         */
                        scope?: "node" | "cluster";
                        /**
                         * @default exact
                         * @enum {string}
                         */
                        consistency?: "exact" | "leased";
                        /**
                         * @default local
                         * @enum {string}
                         */
                        onStoreFailure?: "local" | "allow" | "deny";
                        /**
                         * @example 500ms
                         * @example 30s
                         * @example 1d
                         */
                        maxStoreWait?: string;
                        onLimit?: {
                            /**
                             * @default reject
                             * @enum {string}
                             */
                            action?: "reject" | "delay" | "degrade" | "tag";
                            /** @default 429 */
                            status?: number;
                            body?: string;
                            /** @default [] */
                            headers?: string[];
                            /**
                             * @example 500ms
                             * @example 30s
                             * @example 1d
                             */
                            maxDelay?: string;
                            maxWaiting?: number;
                            uri?: string;
                            location?: string;
                            response?: {
                                /** @default 200 */
                                status?: number;
                                /** @default  */
                                body?: string;
                                /** @default [] */
                                headers?: string[];
                            };
                            header?: string;
                        } | {
                            template: string;
                        };
                        sharedWith?: string[];
                        overrides?: {
                            key: string[];
                            limits?: {
                                /** @default default */
                                name?: string;
                                /** @enum {string} */
                                algorithm: "token-bucket" | "fixed-window" | "sliding-window" | "sliding-log" | "leaky-bucket" | "concurrency";
                                quota: number;
                                window?: string | ("lifetime" | "hour" | "day" | "week" | "month" | "year");
                                timezone?: string;
                                anchor?: number | string;
                                burst?: number;
                                initial?: number;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                warmUp?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                precision?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                maxDelay?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                ttl?: string;
                            }[];
                            /** @enum {string} */
                            mode?: "enforce" | "shadow" | "off";
                        }[];
                        exempt?: {
                            cidrs?: string[];
                            keys?: string[][];
                        };
                        schedule?: {
                            timezone: string;
                            windows: {
                                days?: ("mon" | "tue" | "wed" | "thu" | "fri" | "sat" | "sun")[];
                                from: string;
                                to: string;
                            }[];
                        };
                        template?: string;
                    };
                    "application/yaml": {
                        name?: string;
                        /** @default  */
                        description?: string;
                        /**
                         * @default enforce
                         * @enum {string}
                         */
                        mode?: "enforce" | "shadow" | "off";
                        /** @default 0 */
                        priority?: number;
                        match?: {
                            hosts?: string[];
                            paths?: string[];
                            methods?: string[];
                            headers?: {
                                [key: string]: string[];
                            };
                        };
                        /** @default [] */
                        key?: string[];
                        secret?: {
                            [key: string]: boolean;
                        };
                        /**
                         * @default skip
                         * @enum {string}
                         */
                        onMissingKey?: "skip" | "deny" | "shared";
                        limits?: {
                            /** @default default */
                            name?: string;
                            /** @enum {string} */
                            algorithm: "token-bucket" | "fixed-window" | "sliding-window" | "sliding-log" | "leaky-bucket" | "concurrency";
                            quota: number;
                            window?: string | ("lifetime" | "hour" | "day" | "week" | "month" | "year");
                            timezone?: string;
                            anchor?: number | string;
                            burst?: number;
                            initial?: number;
                            /**
                             * @example 500ms
                             * @example 30s
                             * @example 1d
                             */
                            warmUp?: string;
                            /**
                             * @example 500ms
                             * @example 30s
                             * @example 1d
                             */
                            precision?: string;
                            /**
                             * @example 500ms
                             * @example 30s
                             * @example 1d
                             */
                            maxDelay?: string;
                            /**
                             * @example 500ms
                             * @example 30s
                             * @example 1d
                             */
                            ttl?: string;
                        }[];
                        plans?: {
                            [key: string]: {
                                /** @default default */
                                name?: string;
                                /** @enum {string} */
                                algorithm: "token-bucket" | "fixed-window" | "sliding-window" | "sliding-log" | "leaky-bucket" | "concurrency";
                                quota: number;
                                window?: string | ("lifetime" | "hour" | "day" | "week" | "month" | "year");
                                timezone?: string;
                                anchor?: number | string;
                                burst?: number;
                                initial?: number;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                warmUp?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                precision?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                maxDelay?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                ttl?: string;
                            }[];
                        };
                        planBy?: string;
                        defaultPlan?: string;
                        /** @default 1 */
                        cost?: (number | {
                            from: string;
                            /** @default 1 */
                            default?: number;
                            max?: number;
                        }) | {
                            template: string;
                        };
                        /**
                         * @default node
                         * @enum {string}
                         */
                        scope?: "node" | "cluster";
                        /**
                         * @default exact
                         * @enum {string}
                         */
                        consistency?: "exact" | "leased";
                        /**
                         * @default local
                         * @enum {string}
                         */
                        onStoreFailure?: "local" | "allow" | "deny";
                        /**
                         * @example 500ms
                         * @example 30s
                         * @example 1d
                         */
                        maxStoreWait?: string;
                        onLimit?: {
                            /**
                             * @default reject
                             * @enum {string}
                             */
                            action?: "reject" | "delay" | "degrade" | "tag";
                            /** @default 429 */
                            status?: number;
                            body?: string;
                            /** @default [] */
                            headers?: string[];
                            /**
                             * @example 500ms
                             * @example 30s
                             * @example 1d
                             */
                            maxDelay?: string;
                            maxWaiting?: number;
                            uri?: string;
                            location?: string;
                            response?: {
                                /** @default 200 */
                                status?: number;
                                /** @default  */
                                body?: string;
                                /** @default [] */
                                headers?: string[];
                            };
                            header?: string;
                        } | {
                            template: string;
                        };
                        sharedWith?: string[];
                        overrides?: {
                            key: string[];
                            limits?: {
                                /** @default default */
                                name?: string;
                                /** @enum {string} */
                                algorithm: "token-bucket" | "fixed-window" | "sliding-window" | "sliding-log" | "leaky-bucket" | "concurrency";
                                quota: number;
                                window?: string | ("lifetime" | "hour" | "day" | "week" | "month" | "year");
                                timezone?: string;
                                anchor?: number | string;
                                burst?: number;
                                initial?: number;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                warmUp?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                precision?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                maxDelay?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                ttl?: string;
                            }[];
                            /** @enum {string} */
                            mode?: "enforce" | "shadow" | "off";
                        }[];
                        exempt?: {
                            cidrs?: string[];
                            keys?: string[][];
                        };
                        schedule?: {
                            timezone: string;
                            windows: {
                                days?: ("mon" | "tue" | "wed" | "thu" | "fri" | "sat" | "sun")[];
                                from: string;
                                to: string;
                            }[];
                        };
                        template?: string;
                    };
                };
            };
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Validity"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/apps/{app}/policies/{policy}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Read a policy */
        get: {
            parameters: {
                query?: never;
                header?: {
                    "if-none-match"?: string;
                };
                path: {
                    app: string;
                    policy: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        etag?: string;
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Policy"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        /** Store a policy and push it */
        put: {
            parameters: {
                query?: {
                    /** @example 5s */
                    wait?: string;
                    dryRun?: boolean;
                    strict?: boolean;
                };
                header?: {
                    "if-match"?: string;
                    "if-none-match"?: string;
                };
                path: {
                    app: string;
                    policy: string;
                };
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": {
                        name?: string;
                        /** @default  */
                        description?: string;
                        /**
                         * @default enforce
                         * @enum {string}
                         */
                        mode?: "enforce" | "shadow" | "off";
                        /** @default 0 */
                        priority?: number;
                        match?: {
                            hosts?: string[];
                            paths?: string[];
                            methods?: string[];
                            headers?: {
                                [key: string]: string[];
                            };
                        };
                        /** @default [] */
                        key?: string[];
                        secret?: {
                            [key: string]: boolean;
                        };
                        /**
                         * @default skip
                         * @enum {string}
                         */
                        onMissingKey?: "skip" | "deny" | "shared";
                        limits?: {
                            /** @default default */
                            name?: string;
                            /** @enum {string} */
                            algorithm: "token-bucket" | "fixed-window" | "sliding-window" | "sliding-log" | "leaky-bucket" | "concurrency";
                            quota: number;
                            window?: string | ("lifetime" | "hour" | "day" | "week" | "month" | "year");
                            timezone?: string;
                            anchor?: number | string;
                            burst?: number;
                            initial?: number;
                            /**
                             * @example 500ms
                             * @example 30s
                             * @example 1d
                             */
                            warmUp?: string;
                            /**
                             * @example 500ms
                             * @example 30s
                             * @example 1d
                             */
                            precision?: string;
                            /**
                             * @example 500ms
                             * @example 30s
                             * @example 1d
                             */
                            maxDelay?: string;
                            /**
                             * @example 500ms
                             * @example 30s
                             * @example 1d
                             */
                            ttl?: string;
                        }[];
                        plans?: {
                            [key: string]: {
                                /** @default default */
                                name?: string;
                                /** @enum {string} */
                                algorithm: "token-bucket" | "fixed-window" | "sliding-window" | "sliding-log" | "leaky-bucket" | "concurrency";
                                quota: number;
                                window?: string | ("lifetime" | "hour" | "day" | "week" | "month" | "year");
                                timezone?: string;
                                anchor?: number | string;
                                burst?: number;
                                initial?: number;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                warmUp?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                precision?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                maxDelay?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                ttl?: string;
                            }[];
                        };
                        planBy?: string;
                        defaultPlan?: string;
                        /** @default 1 */
                        cost?: (number | {
                            from: string;
                            /** @default 1 */
                            default?: number;
                            max?: number;
                        }) | {
                            template: string;
                        };
                        /**
                         * @default node
                         * @enum {string}
                         */
                        scope?: "node" | "cluster";
                        /**
                         * @default exact
                         * @enum {string}
                         */
                        consistency?: "exact" | "leased";
                        /**
                         * @default local
                         * @enum {string}
                         */
                        onStoreFailure?: "local" | "allow" | "deny";
                        /**
                         * @example 500ms
                         * @example 30s
                         * @example 1d
                         */
                        maxStoreWait?: string;
                        onLimit?: {
                            /**
                             * @default reject
                             * @enum {string}
                             */
                            action?: "reject" | "delay" | "degrade" | "tag";
                            /** @default 429 */
                            status?: number;
                            body?: string;
                            /** @default [] */
                            headers?: string[];
                            /**
                             * @example 500ms
                             * @example 30s
                             * @example 1d
                             */
                            maxDelay?: string;
                            maxWaiting?: number;
                            uri?: string;
                            location?: string;
                            response?: {
                                /** @default 200 */
                                status?: number;
                                /** @default  */
                                body?: string;
                                /** @default [] */
                                headers?: string[];
                            };
                            header?: string;
                        } | {
                            template: string;
                        };
                        sharedWith?: string[];
                        overrides?: {
                            key: string[];
                            limits?: {
                                /** @default default */
                                name?: string;
                                /** @enum {string} */
                                algorithm: "token-bucket" | "fixed-window" | "sliding-window" | "sliding-log" | "leaky-bucket" | "concurrency";
                                quota: number;
                                window?: string | ("lifetime" | "hour" | "day" | "week" | "month" | "year");
                                timezone?: string;
                                anchor?: number | string;
                                burst?: number;
                                initial?: number;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                warmUp?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                precision?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                maxDelay?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                ttl?: string;
                            }[];
                            /** @enum {string} */
                            mode?: "enforce" | "shadow" | "off";
                        }[];
                        exempt?: {
                            cidrs?: string[];
                            keys?: string[][];
                        };
                        schedule?: {
                            timezone: string;
                            windows: {
                                days?: ("mon" | "tue" | "wed" | "thu" | "fri" | "sat" | "sun")[];
                                from: string;
                                to: string;
                            }[];
                        };
                        template?: string;
                    };
                    "application/yaml": {
                        name?: string;
                        /** @default  */
                        description?: string;
                        /**
                         * @default enforce
                         * @enum {string}
                         */
                        mode?: "enforce" | "shadow" | "off";
                        /** @default 0 */
                        priority?: number;
                        match?: {
                            hosts?: string[];
                            paths?: string[];
                            methods?: string[];
                            headers?: {
                                [key: string]: string[];
                            };
                        };
                        /** @default [] */
                        key?: string[];
                        secret?: {
                            [key: string]: boolean;
                        };
                        /**
                         * @default skip
                         * @enum {string}
                         */
                        onMissingKey?: "skip" | "deny" | "shared";
                        limits?: {
                            /** @default default */
                            name?: string;
                            /** @enum {string} */
                            algorithm: "token-bucket" | "fixed-window" | "sliding-window" | "sliding-log" | "leaky-bucket" | "concurrency";
                            quota: number;
                            window?: string | ("lifetime" | "hour" | "day" | "week" | "month" | "year");
                            timezone?: string;
                            anchor?: number | string;
                            burst?: number;
                            initial?: number;
                            /**
                             * @example 500ms
                             * @example 30s
                             * @example 1d
                             */
                            warmUp?: string;
                            /**
                             * @example 500ms
                             * @example 30s
                             * @example 1d
                             */
                            precision?: string;
                            /**
                             * @example 500ms
                             * @example 30s
                             * @example 1d
                             */
                            maxDelay?: string;
                            /**
                             * @example 500ms
                             * @example 30s
                             * @example 1d
                             */
                            ttl?: string;
                        }[];
                        plans?: {
                            [key: string]: {
                                /** @default default */
                                name?: string;
                                /** @enum {string} */
                                algorithm: "token-bucket" | "fixed-window" | "sliding-window" | "sliding-log" | "leaky-bucket" | "concurrency";
                                quota: number;
                                window?: string | ("lifetime" | "hour" | "day" | "week" | "month" | "year");
                                timezone?: string;
                                anchor?: number | string;
                                burst?: number;
                                initial?: number;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                warmUp?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                precision?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                maxDelay?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                ttl?: string;
                            }[];
                        };
                        planBy?: string;
                        defaultPlan?: string;
                        /** @default 1 */
                        cost?: (number | {
                            from: string;
                            /** @default 1 */
                            default?: number;
                            max?: number;
                        }) | {
                            template: string;
                        };
                        /**
                         * @default node
                         * @enum {string}
                         */
                        scope?: "node" | "cluster";
                        /**
                         * @default exact
                         * @enum {string}
                         */
                        consistency?: "exact" | "leased";
                        /**
                         * @default local
                         * @enum {string}
                         */
                        onStoreFailure?: "local" | "allow" | "deny";
                        /**
                         * @example 500ms
                         * @example 30s
                         * @example 1d
                         */
                        maxStoreWait?: string;
                        onLimit?: {
                            /**
                             * @default reject
                             * @enum {string}
                             */
                            action?: "reject" | "delay" | "degrade" | "tag";
                            /** @default 429 */
                            status?: number;
                            body?: string;
                            /** @default [] */
                            headers?: string[];
                            /**
                             * @example 500ms
                             * @example 30s
                             * @example 1d
                             */
                            maxDelay?: string;
                            maxWaiting?: number;
                            uri?: string;
                            location?: string;
                            response?: {
                                /** @default 200 */
                                status?: number;
                                /** @default  */
                                body?: string;
                                /** @default [] */
                                headers?: string[];
                            };
                            header?: string;
                        } | {
                            template: string;
                        };
                        sharedWith?: string[];
                        overrides?: {
                            key: string[];
                            limits?: {
                                /** @default default */
                                name?: string;
                                /** @enum {string} */
                                algorithm: "token-bucket" | "fixed-window" | "sliding-window" | "sliding-log" | "leaky-bucket" | "concurrency";
                                quota: number;
                                window?: string | ("lifetime" | "hour" | "day" | "week" | "month" | "year");
                                timezone?: string;
                                anchor?: number | string;
                                burst?: number;
                                initial?: number;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                warmUp?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                precision?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                maxDelay?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                ttl?: string;
                            }[];
                            /** @enum {string} */
                            mode?: "enforce" | "shadow" | "off";
                        }[];
                        exempt?: {
                            cidrs?: string[];
                            keys?: string[][];
                        };
                        schedule?: {
                            timezone: string;
                            windows: {
                                days?: ("mon" | "tue" | "wed" | "thu" | "fri" | "sat" | "sun")[];
                                from: string;
                                to: string;
                            }[];
                        };
                        template?: string;
                    };
                };
            };
            responses: {
                200: {
                    headers: {
                        etag?: string;
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["PolicyChange"];
                    };
                };
                201: {
                    headers: {
                        etag?: string;
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["PolicyChange"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        post?: never;
        /** Delete a policy, with the bans of its keys */
        delete: {
            parameters: {
                query?: {
                    /** @example 5s */
                    wait?: string;
                    dryRun?: boolean;
                };
                header?: {
                    "if-match"?: string;
                    "if-none-match"?: string;
                };
                path: {
                    app: string;
                    policy: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Change"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/apps/{app}/templates": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List an app's templates by name */
        get: {
            parameters: {
                query?: {
                    after?: string;
                    limit?: number;
                };
                header?: never;
                path: {
                    app: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["TemplatePage"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/apps/{app}/templates/{template}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Read a template */
        get: {
            parameters: {
                query?: never;
                header?: {
                    "if-none-match"?: string;
                };
                path: {
                    app: string;
                    template: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        etag?: string;
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Template"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        /** Store a template and push the policies that use it */
        put: {
            parameters: {
                query?: {
                    /** @example 5s */
                    wait?: string;
                    dryRun?: boolean;
                };
                header?: {
                    "if-match"?: string;
                    "if-none-match"?: string;
                };
                path: {
                    app: string;
                    template: string;
                };
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": {
                        /** @default 1 */
                        cost?: number | {
                            from: string;
                            /** @default 1 */
                            default?: number;
                            max?: number;
                        };
                        onLimit?: {
                            /**
                             * @default reject
                             * @enum {string}
                             */
                            action?: "reject" | "delay" | "degrade" | "tag";
                            /** @default 429 */
                            status?: number;
                            body?: string;
                            /** @default [] */
                            headers?: string[];
                            /**
                             * @example 500ms
                             * @example 30s
                             * @example 1d
                             */
                            maxDelay?: string;
                            maxWaiting?: number;
                            uri?: string;
                            location?: string;
                            response?: {
                                /** @default 200 */
                                status?: number;
                                /** @default  */
                                body?: string;
                                /** @default [] */
                                headers?: string[];
                            };
                            header?: string;
                        };
                    };
                    "application/yaml": {
                        /** @default 1 */
                        cost?: number | {
                            from: string;
                            /** @default 1 */
                            default?: number;
                            max?: number;
                        };
                        onLimit?: {
                            /**
                             * @default reject
                             * @enum {string}
                             */
                            action?: "reject" | "delay" | "degrade" | "tag";
                            /** @default 429 */
                            status?: number;
                            body?: string;
                            /** @default [] */
                            headers?: string[];
                            /**
                             * @example 500ms
                             * @example 30s
                             * @example 1d
                             */
                            maxDelay?: string;
                            maxWaiting?: number;
                            uri?: string;
                            location?: string;
                            response?: {
                                /** @default 200 */
                                status?: number;
                                /** @default  */
                                body?: string;
                                /** @default [] */
                                headers?: string[];
                            };
                            header?: string;
                        };
                    };
                };
            };
            responses: {
                200: {
                    headers: {
                        etag?: string;
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Change"];
                    };
                };
                201: {
                    headers: {
                        etag?: string;
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Change"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        post?: never;
        /** Delete a template that no policy uses */
        delete: {
            parameters: {
                query?: {
                    /** @example 5s */
                    wait?: string;
                    dryRun?: boolean;
                };
                header?: {
                    "if-match"?: string;
                    "if-none-match"?: string;
                };
                path: {
                    app: string;
                    template: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Change"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/library": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List what is supplied, by name */
        get: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Library"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/library/{template}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Read one supplied action or policy */
        get: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    template: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["SuppliedTemplate"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/apps/{app}/networks": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List an app's lists of networks by name */
        get: {
            parameters: {
                query?: {
                    after?: string;
                    limit?: number;
                };
                header?: never;
                path: {
                    app: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["NetworkListPage"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/apps/{app}/networks/{networks}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Read a list of networks */
        get: {
            parameters: {
                query?: never;
                header?: {
                    "if-none-match"?: string;
                };
                path: {
                    app: string;
                    networks: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        etag?: string;
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["NetworkList"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        /** Store a list of networks, whole, and push it */
        put: {
            parameters: {
                query?: {
                    /** @example 5s */
                    wait?: string;
                    dryRun?: boolean;
                    allowEmpty?: boolean;
                };
                header?: {
                    "if-match"?: string;
                    "if-none-match"?: string;
                };
                path: {
                    app: string;
                    networks: string;
                };
                cookie?: never;
            };
            requestBody: {
                content: {
                    "text/plain": string;
                };
            };
            responses: {
                200: {
                    headers: {
                        etag?: string;
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Change"];
                    };
                };
                201: {
                    headers: {
                        etag?: string;
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Change"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        post?: never;
        /** Delete a list of networks that nothing refers to */
        delete: {
            parameters: {
                query?: {
                    /** @example 5s */
                    wait?: string;
                    dryRun?: boolean;
                };
                header?: {
                    "if-match"?: string;
                    "if-none-match"?: string;
                };
                path: {
                    app: string;
                    networks: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Change"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/apps/{app}/bans": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List an app's bans in force, oldest first */
        get: {
            parameters: {
                query?: {
                    after?: string;
                    limit?: number;
                };
                header?: never;
                path: {
                    app: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["BanPage"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        put?: never;
        /** Ban a network, a list of networks, or key values of a policy, and push it */
        post: {
            parameters: {
                query?: {
                    /** @example 5s */
                    wait?: string;
                    dryRun?: boolean;
                };
                header?: never;
                path: {
                    app: string;
                };
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": {
                        cidr?: string;
                        policy?: string;
                        key?: string[];
                        keyPattern?: string[];
                        until?: string;
                        /**
                         * @example 500ms
                         * @example 30s
                         * @example 1d
                         */
                        for?: string;
                        reason?: string;
                    };
                    "application/yaml": {
                        cidr?: string;
                        policy?: string;
                        key?: string[];
                        keyPattern?: string[];
                        until?: string;
                        /**
                         * @example 500ms
                         * @example 30s
                         * @example 1d
                         */
                        for?: string;
                        reason?: string;
                    };
                };
            };
            responses: {
                200: {
                    headers: {
                        location?: string;
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["NewBan"];
                    };
                };
                201: {
                    headers: {
                        location?: string;
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["NewBan"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/apps/{app}/bans/{ban}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Read a ban in force */
        get: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    app: string;
                    ban: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Ban"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        /** End a ban now */
        delete: {
            parameters: {
                query?: {
                    /** @example 5s */
                    wait?: string;
                    dryRun?: boolean;
                };
                header?: never;
                path: {
                    app: string;
                    ban: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Change"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/apps/{app}/consumers": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List an app's consumers, by their ids */
        get: {
            parameters: {
                query?: {
                    after?: string;
                    prefix?: string;
                    plan?: string;
                    limit?: number;
                };
                header?: never;
                path: {
                    app: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["ConsumerPage"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        /** Store many consumers */
        put: {
            parameters: {
                query?: {
                    /** @example 5s */
                    wait?: string;
                    replace?: boolean;
                    allowEmpty?: boolean;
                    progress?: boolean;
                    strict?: boolean;
                };
                header?: never;
                path: {
                    app: string;
                };
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/jsonl": {
                        id: string;
                        plan: string;
                        overrides?: {
                            [key: string]: {
                                /** @default default */
                                name?: string;
                                /** @enum {string} */
                                algorithm: "token-bucket" | "fixed-window" | "sliding-window" | "sliding-log" | "leaky-bucket" | "concurrency";
                                quota: number;
                                window?: string | ("lifetime" | "hour" | "day" | "week" | "month" | "year");
                                timezone?: string;
                                anchor?: number | string;
                                burst?: number;
                                initial?: number;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                warmUp?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                precision?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                maxDelay?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                ttl?: string;
                            }[];
                        };
                    };
                    "application/x-ndjson": {
                        id: string;
                        plan: string;
                        overrides?: {
                            [key: string]: {
                                /** @default default */
                                name?: string;
                                /** @enum {string} */
                                algorithm: "token-bucket" | "fixed-window" | "sliding-window" | "sliding-log" | "leaky-bucket" | "concurrency";
                                quota: number;
                                window?: string | ("lifetime" | "hour" | "day" | "week" | "month" | "year");
                                timezone?: string;
                                anchor?: number | string;
                                burst?: number;
                                initial?: number;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                warmUp?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                precision?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                maxDelay?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                ttl?: string;
                            }[];
                        };
                    };
                };
            };
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["ConsumersChange"];
                        "application/x-ndjson": string;
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/apps/{app}/consumers/{consumer}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Read a consumer */
        get: {
            parameters: {
                query?: never;
                header?: {
                    "if-none-match"?: string;
                };
                path: {
                    app: string;
                    consumer: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        etag?: string;
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Consumer"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        /** Give a consumer a plan, and push it */
        put: {
            parameters: {
                query?: {
                    /** @example 5s */
                    wait?: string;
                    dryRun?: boolean;
                    strict?: boolean;
                };
                header?: {
                    "if-match"?: string;
                    "if-none-match"?: string;
                };
                path: {
                    app: string;
                    consumer: string;
                };
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": {
                        plan: string;
                        overrides?: {
                            [key: string]: {
                                /** @default default */
                                name?: string;
                                /** @enum {string} */
                                algorithm: "token-bucket" | "fixed-window" | "sliding-window" | "sliding-log" | "leaky-bucket" | "concurrency";
                                quota: number;
                                window?: string | ("lifetime" | "hour" | "day" | "week" | "month" | "year");
                                timezone?: string;
                                anchor?: number | string;
                                burst?: number;
                                initial?: number;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                warmUp?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                precision?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                maxDelay?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                ttl?: string;
                            }[];
                        };
                    };
                    "application/yaml": {
                        plan: string;
                        overrides?: {
                            [key: string]: {
                                /** @default default */
                                name?: string;
                                /** @enum {string} */
                                algorithm: "token-bucket" | "fixed-window" | "sliding-window" | "sliding-log" | "leaky-bucket" | "concurrency";
                                quota: number;
                                window?: string | ("lifetime" | "hour" | "day" | "week" | "month" | "year");
                                timezone?: string;
                                anchor?: number | string;
                                burst?: number;
                                initial?: number;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                warmUp?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                precision?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                maxDelay?: string;
                                /**
                                 * @example 500ms
                                 * @example 30s
                                 * @example 1d
                                 */
                                ttl?: string;
                            }[];
                        };
                    };
                };
            };
            responses: {
                200: {
                    headers: {
                        etag?: string;
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["ConsumerChange"];
                    };
                };
                201: {
                    headers: {
                        etag?: string;
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["ConsumerChange"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        post?: never;
        /** Delete a consumer, whose requests have the default plan then */
        delete: {
            parameters: {
                query?: {
                    /** @example 5s */
                    wait?: string;
                    dryRun?: boolean;
                };
                header?: {
                    "if-match"?: string;
                    "if-none-match"?: string;
                };
                path: {
                    app: string;
                    consumer: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["ConsumerChange"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/tokens": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List your own tokens and those of the apps that you own, oldest first, without their values */
        get: {
            parameters: {
                query?: {
                    after?: string;
                    limit?: number;
                };
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["TokenPage"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        put?: never;
        /** Create a token */
        post: {
            parameters: {
                query?: {
                    /** @example 5s */
                    wait?: string;
                    dryRun?: boolean;
                };
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": {
                        name: string;
                        app?: string;
                        /** @enum {string} */
                        role?: "owner" | "editor" | "viewer" | "caller";
                        member?: string;
                        /**
                         * @example 500ms
                         * @example 30s
                         * @example 1d
                         */
                        expiresIn?: string;
                    };
                    "application/yaml": {
                        name: string;
                        app?: string;
                        /** @enum {string} */
                        role?: "owner" | "editor" | "viewer" | "caller";
                        member?: string;
                        /**
                         * @example 500ms
                         * @example 30s
                         * @example 1d
                         */
                        expiresIn?: string;
                    };
                };
            };
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["NewToken"];
                    };
                };
                201: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["NewToken"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/tokens/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Delete a token, which is invalid from now on */
        delete: {
            parameters: {
                query?: {
                    /** @example 5s */
                    wait?: string;
                    dryRun?: boolean;
                };
                header?: never;
                path: {
                    id: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["TokenChange"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/members": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the members of the apps that you own, by name */
        get: {
            parameters: {
                query?: {
                    after?: string;
                    limit?: number;
                };
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["MemberPage"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        put?: never;
        /** Add a member */
        post: {
            parameters: {
                query?: {
                    dryRun?: boolean;
                };
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": {
                        name: string;
                        roles?: {
                            [key: string]: "owner" | "editor" | "viewer" | "none";
                        };
                        admin?: boolean;
                        disabled?: boolean;
                    };
                    "application/yaml": {
                        name: string;
                        roles?: {
                            [key: string]: "owner" | "editor" | "viewer" | "none";
                        };
                        admin?: boolean;
                        disabled?: boolean;
                    };
                };
            };
            responses: {
                200: {
                    headers: {
                        etag?: string;
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["MemberChange"];
                    };
                };
                201: {
                    headers: {
                        etag?: string;
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["MemberChange"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/members/{member}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Read a member */
        get: {
            parameters: {
                query?: never;
                header?: {
                    "if-none-match"?: string;
                };
                path: {
                    member: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        etag?: string;
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Member"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        /** Delete a member with their tokens */
        delete: {
            parameters: {
                query?: {
                    dryRun?: boolean;
                };
                header?: {
                    "if-match"?: string;
                    "if-none-match"?: string;
                };
                path: {
                    member: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Nothing"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        options?: never;
        head?: never;
        /** Change a member's roles, or disable a member */
        patch: {
            parameters: {
                query?: {
                    dryRun?: boolean;
                };
                header?: {
                    "if-match"?: string;
                    "if-none-match"?: string;
                };
                path: {
                    member: string;
                };
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": {
                        roles?: {
                            [key: string]: "owner" | "editor" | "viewer" | "none";
                        };
                        admin?: boolean;
                        disabled?: boolean;
                    };
                    "application/yaml": {
                        roles?: {
                            [key: string]: "owner" | "editor" | "viewer" | "none";
                        };
                        admin?: boolean;
                        disabled?: boolean;
                    };
                };
            };
            responses: {
                200: {
                    headers: {
                        etag?: string;
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["MemberChange"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        trace?: never;
    };
    "/api/v1/session": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Who sends the request, and what they may do */
        get: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Session"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        put?: never;
        /** Sign in by a token: the answer sets the cookie of a session */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": {
                        token: string;
                    };
                };
            };
            responses: {
                201: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Session"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        /** Sign out: the session ends */
        delete: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Nothing"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/session/oidc": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Sign in by OpenID Connect: sends the browser to the provider */
        get: {
            parameters: {
                query?: {
                    returnTo?: string;
                };
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/session/oidc/callback": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Where the provider sends the browser back to: sets the cookie of a session */
        get: {
            parameters: {
                query?: {
                    code?: string;
                    state?: string;
                    error?: string;
                };
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "text/html": string;
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/audit": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List who did what to the apps that you own, newest first */
        get: {
            parameters: {
                query?: {
                    app?: string;
                    who?: string;
                    action?: "create-app" | "update-app" | "delete-app" | "create-policy" | "update-policy" | "delete-policy" | "put-policies" | "delete-policies" | "create-ban" | "delete-ban" | "create-template" | "update-template" | "delete-template" | "create-networks" | "update-networks" | "delete-networks" | "create-caller" | "delete-caller" | "roll-back" | "new-epoch" | "begin-epoch" | "create-token" | "delete-token" | "create-member" | "update-member" | "delete-member" | "sign-in" | "sign-out" | "end-session" | "refuse-sign-in" | "read-counter" | "reset-counter" | "top-up-counter" | "put-consumer" | "delete-consumer" | "import-consumers";
                    subject?: string;
                    since?: string;
                    until?: string;
                    before?: string;
                    limit?: number;
                };
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["AuditPage"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/revisions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the changes to the apps that your token is for, newest first */
        get: {
            parameters: {
                query?: {
                    before?: number;
                    limit?: number;
                };
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["RevisionPage"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/revisions/{revision}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Read a revision with the documents before and after it */
        get: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    revision: number;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["RevisionDetails"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/revisions/{from}/diff/{to}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Show what changed between two revisions, as JSON Patches and as text */
        get: {
            parameters: {
                query?: {
                    app?: string;
                    policy?: string;
                };
                header?: never;
                path: {
                    from: number;
                    to: number;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Diff"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/revisions/{revision}/rollback": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Bring a policy, or all policies and templates of an app, back to what they were at a revision */
        post: {
            parameters: {
                query?: {
                    /** @example 5s */
                    wait?: string;
                    dryRun?: boolean;
                };
                header?: never;
                path: {
                    revision: number;
                };
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": {
                        app: string;
                        policy?: string;
                    };
                    "application/yaml": {
                        app: string;
                        policy?: string;
                    };
                };
            };
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["RollBack"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/epoch": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Begin a new epoch: every gateway loads the snapshot again, whatever its revision */
        post: {
            parameters: {
                query?: {
                    /** @example 5s */
                    wait?: string;
                    dryRun?: boolean;
                };
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Change"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/gateways": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the gateways that are connected or were within the last hour, by id */
        get: {
            parameters: {
                query?: {
                    after?: string;
                    limit?: number;
                };
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Fleet"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/apps/{app}/counters": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Read what a key of a policy has left, in Redis or on each gateway */
        get: {
            parameters: {
                query: {
                    policy: string;
                    key?: string | string[];
                    plan?: string;
                    literal?: boolean;
                };
                header?: never;
                path: {
                    app: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Counter"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        put?: never;
        /** Refund units to a key of a policy, and read what it has left */
        post: {
            parameters: {
                query?: {
                    literal?: boolean;
                };
                header?: never;
                path: {
                    app: string;
                };
                cookie?: never;
            };
            requestBody: {
                content: {
                    "application/json": {
                        policy: string;
                        /** @default [] */
                        key?: string[];
                        plan?: string;
                        limit?: string;
                        units: number;
                    };
                    "application/yaml": {
                        policy: string;
                        /** @default [] */
                        key?: string[];
                        plan?: string;
                        limit?: string;
                        units: number;
                    };
                };
            };
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Counter"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        /** Reset a key of a policy, as if it were new, and read what it has left */
        delete: {
            parameters: {
                query: {
                    policy: string;
                    key?: string | string[];
                    plan?: string;
                    literal?: boolean;
                };
                header?: never;
                path: {
                    app: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Counter"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/apps/{app}/top": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the keys of a policy that were admitted and refused most */
        get: {
            parameters: {
                query: {
                    policy: string;
                    window?: "minute" | "hour";
                    limit?: number;
                };
                header?: never;
                path: {
                    app: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["TopKeys"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/apps/{app}/traffic": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List what was admitted and refused, by second, minute or hour */
        get: {
            parameters: {
                query?: {
                    policy?: string;
                    /** @example 15m */
                    since?: string;
                    step?: "second" | "minute" | "hour";
                };
                header?: never;
                path: {
                    app: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Traffic"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/apps/{app}/traffic/policies": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the policies of an app that admitted or refused most, with what they refused by minute */
        get: {
            parameters: {
                query?: {
                    by?: "refused" | "admitted";
                    /** @example 15m */
                    since?: string;
                    limit?: number;
                };
                header?: never;
                path: {
                    app: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["BusyPolicies"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/traffic": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the apps that admitted or refused most, with what they refused by minute */
        get: {
            parameters: {
                query?: {
                    by?: "refused" | "admitted";
                    /** @example 15m */
                    since?: string;
                    limit?: number;
                };
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["BusyApps"];
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Follow what goes on, as server-sent events */
        get: {
            parameters: {
                query?: {
                    app?: string;
                    policy?: string;
                };
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "text/event-stream": string;
                    };
                };
                default: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/problem+json": components["schemas"]["Problem"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        Problem: {
            type: string;
            title: string;
            status: number;
            detail: string;
            /** @enum {string} */
            code: "invalid-policy" | "invalid-template" | "invalid-request" | "malformed-body" | "bad-request" | "unauthorized" | "sign-in-failed" | "forbidden" | "cross-site-request" | "sign-in-refused" | "not-found" | "openid-not-configured" | "app-not-found" | "policy-not-found" | "template-not-found" | "networks-not-found" | "invalid-networks" | "ban-not-found" | "consumer-not-found" | "invalid-consumers" | "member-not-found" | "member-exists" | "too-many-members" | "too-many-tokens" | "revision-not-found" | "token-not-found" | "method-not-allowed" | "request-timeout" | "app-not-empty" | "app-protected" | "outside-realm" | "template-in-use" | "networks-in-use" | "too-many-bans" | "bound-exceeded" | "app-changing" | "import-under-way" | "precondition-failed" | "body-too-large" | "unsupported-media-type" | "upgrade-required" | "too-many-requests" | "too-many-failed-sign-ins" | "too-many-streams" | "headers-too-large" | "internal" | "yaml-busy" | "bodies-busy" | "reads-busy" | "redis-unavailable" | "sign-in-unavailable" | "not-ready" | "database-busy" | "database-unreachable" | "storage-unwritable" | "storage-full";
            errors?: {
                line?: number;
                policy?: string;
                path: string;
                expected: string;
                got: string;
            }[];
            etag?: string;
            policies?: string[];
            bounds?: {
                /** @enum {string} */
                bound: "policies" | "bytes" | "steps" | "limits" | "kinds" | "templates" | "templateBytes" | "bans" | "banBytes" | "tokens" | "consumers" | "networkLists" | "networkBytes";
                /** @enum {string} */
                of: "policy" | "template" | "app" | "all";
                used: number;
                allowed: number;
                wanted: number;
            }[];
            stored?: {
                created: number;
                changed: number;
                deleted: number;
            };
            requestId?: string;
        };
        Policy: {
            name: string;
            /** @default  */
            description: string;
            /**
             * @default enforce
             * @enum {string}
             */
            mode: "enforce" | "shadow" | "off";
            /** @default 0 */
            priority: number;
            match?: {
                hosts?: string[];
                paths?: string[];
                methods?: string[];
                headers?: {
                    [key: string]: string[];
                };
            };
            /** @default [] */
            key: string[];
            secret?: {
                [key: string]: boolean;
            };
            /**
             * @default skip
             * @enum {string}
             */
            onMissingKey: "skip" | "deny" | "shared";
            limits?: {
                /** @default default */
                name: string;
                /** @enum {string} */
                algorithm: "token-bucket" | "fixed-window" | "sliding-window" | "sliding-log" | "leaky-bucket" | "concurrency";
                quota: number;
                window?: string | ("lifetime" | "hour" | "day" | "week" | "month" | "year");
                timezone?: string;
                anchor?: number | string;
                burst?: number;
                initial?: number;
                /**
                 * @example 500ms
                 * @example 30s
                 * @example 1d
                 */
                warmUp?: string;
                /**
                 * @example 500ms
                 * @example 30s
                 * @example 1d
                 */
                precision?: string;
                /**
                 * @example 500ms
                 * @example 30s
                 * @example 1d
                 */
                maxDelay?: string;
                /**
                 * @example 500ms
                 * @example 30s
                 * @example 1d
                 */
                ttl?: string;
            }[];
            plans?: {
                [key: string]: {
                    /** @default default */
                    name: string;
                    /** @enum {string} */
                    algorithm: "token-bucket" | "fixed-window" | "sliding-window" | "sliding-log" | "leaky-bucket" | "concurrency";
                    quota: number;
                    window?: string | ("lifetime" | "hour" | "day" | "week" | "month" | "year");
                    timezone?: string;
                    anchor?: number | string;
                    burst?: number;
                    initial?: number;
                    /**
                     * @example 500ms
                     * @example 30s
                     * @example 1d
                     */
                    warmUp?: string;
                    /**
                     * @example 500ms
                     * @example 30s
                     * @example 1d
                     */
                    precision?: string;
                    /**
                     * @example 500ms
                     * @example 30s
                     * @example 1d
                     */
                    maxDelay?: string;
                    /**
                     * @example 500ms
                     * @example 30s
                     * @example 1d
                     */
                    ttl?: string;
                }[];
            };
            planBy?: string;
            defaultPlan?: string;
            /** @default 1 */
            cost: (number | {
                from: string;
                /** @default 1 */
                default: number;
                max?: number;
            }) | {
                template: string;
            };
            /**
             * @default node
             * @enum {string}
             */
            scope: "node" | "cluster";
            /**
             * @default exact
             * @enum {string}
             */
            consistency: "exact" | "leased";
            /**
             * @default local
             * @enum {string}
             */
            onStoreFailure: "local" | "allow" | "deny";
            /**
             * @example 500ms
             * @example 30s
             * @example 1d
             */
            maxStoreWait?: string;
            onLimit?: {
                /**
                 * @default reject
                 * @enum {string}
                 */
                action: "reject" | "delay" | "degrade" | "tag";
                /** @default 429 */
                status: number;
                body?: string;
                /** @default [] */
                headers: string[];
                /**
                 * @example 500ms
                 * @example 30s
                 * @example 1d
                 */
                maxDelay?: string;
                maxWaiting?: number;
                uri?: string;
                location?: string;
                response?: {
                    /** @default 200 */
                    status: number;
                    /** @default  */
                    body: string;
                    /** @default [] */
                    headers: string[];
                };
                header?: string;
            } | {
                template: string;
            };
            sharedWith?: string[];
            overrides?: {
                key: string[];
                limits?: {
                    /** @default default */
                    name: string;
                    /** @enum {string} */
                    algorithm: "token-bucket" | "fixed-window" | "sliding-window" | "sliding-log" | "leaky-bucket" | "concurrency";
                    quota: number;
                    window?: string | ("lifetime" | "hour" | "day" | "week" | "month" | "year");
                    timezone?: string;
                    anchor?: number | string;
                    burst?: number;
                    initial?: number;
                    /**
                     * @example 500ms
                     * @example 30s
                     * @example 1d
                     */
                    warmUp?: string;
                    /**
                     * @example 500ms
                     * @example 30s
                     * @example 1d
                     */
                    precision?: string;
                    /**
                     * @example 500ms
                     * @example 30s
                     * @example 1d
                     */
                    maxDelay?: string;
                    /**
                     * @example 500ms
                     * @example 30s
                     * @example 1d
                     */
                    ttl?: string;
                }[];
                /** @enum {string} */
                mode?: "enforce" | "shadow" | "off";
            }[];
            exempt?: {
                cidrs?: string[];
                keys?: string[][];
            };
            schedule?: {
                timezone: string;
                windows: {
                    days?: ("mon" | "tue" | "wed" | "thu" | "fri" | "sat" | "sun")[];
                    from: string;
                    to: string;
                }[];
            };
        };
        Change: {
            revision: number;
            applied?: {
                gateways: number;
                acked: number;
                refused: number;
                refusals?: {
                    gateway: string;
                    revision: number;
                    errors: {
                        line?: number;
                        policy?: string;
                        path: string;
                        expected: string;
                        got: string;
                    }[];
                }[];
            };
            /** @enum {boolean} */
            dryRun?: true;
            changes?: {
                /** @enum {string} */
                kind: "app" | "policy" | "template" | "networks" | "ban";
                app: string;
                name: string;
                /** @enum {string} */
                change: "created" | "updated" | "deleted";
                patch: {
                    op: string;
                    path: string;
                    value?: unknown;
                    from?: string;
                }[];
                text: string;
            }[];
            gateways?: string[];
        };
        PolicyChange: {
            revision: number;
            applied?: {
                gateways: number;
                acked: number;
                refused: number;
                refusals?: {
                    gateway: string;
                    revision: number;
                    errors: {
                        line?: number;
                        policy?: string;
                        path: string;
                        expected: string;
                        got: string;
                    }[];
                }[];
            };
            warnings?: {
                line?: number;
                policy?: string;
                path: string;
                expected: string;
                got: string;
            }[];
            /** @enum {boolean} */
            dryRun?: true;
            changes?: {
                /** @enum {string} */
                kind: "app" | "policy" | "template" | "networks" | "ban";
                app: string;
                name: string;
                /** @enum {string} */
                change: "created" | "updated" | "deleted";
                patch: {
                    op: string;
                    path: string;
                    value?: unknown;
                    from?: string;
                }[];
                text: string;
            }[];
            gateways?: string[];
        };
        PoliciesChange: {
            revision: number;
            created: number;
            changed: number;
            unchanged: number;
            deleted: number;
            applied?: {
                gateways: number;
                acked: number;
                refused: number;
                refusals?: {
                    gateway: string;
                    revision: number;
                    errors: {
                        line?: number;
                        policy?: string;
                        path: string;
                        expected: string;
                        got: string;
                    }[];
                }[];
            };
            warnings?: {
                line?: number;
                policy?: string;
                path: string;
                expected: string;
                got: string;
            }[];
            /** @enum {boolean} */
            dryRun?: true;
            changes?: {
                /** @enum {string} */
                kind: "app" | "policy" | "template" | "networks" | "ban";
                app: string;
                name: string;
                /** @enum {string} */
                change: "created" | "updated" | "deleted";
                patch: {
                    op: string;
                    path: string;
                    value?: unknown;
                    from?: string;
                }[];
                text: string;
            }[];
            gateways?: string[];
            moreChanges?: number;
        };
        App: {
            name: string;
            /** Format: date-time */
            createdAt: string;
            revision: number;
            realm: {
                hosts?: string[];
                paths?: string[];
                redirects?: string[];
            } | null;
            /** @enum {string} */
            realmState: "set" | "none" | "legacy" | "all";
            exempt: {
                cidrs?: string[];
                keys?: {
                    part: string;
                    pattern: string;
                }[];
            } | null;
            bounds: {
                policies: number;
                bytes: number;
                steps: number;
                limits: number;
                kinds: number;
                templates: number;
                templateBytes: number;
                bans: number;
                banBytes: number;
                tokens: number;
                consumers: number;
                networkLists: number;
                networkBytes: number;
            };
            used: {
                policies: number;
                bytes: number;
                steps: number;
                limits: number;
                kinds: number;
                templates: number;
                templateBytes: number;
                bans: number;
                banBytes: number;
                tokens: number;
                consumers: number;
                networkLists: number;
                networkBytes: number;
            };
        };
        AppChange: {
            revision: number;
            applied?: {
                gateways: number;
                acked: number;
                refused: number;
                refusals?: {
                    gateway: string;
                    revision: number;
                    errors: {
                        line?: number;
                        policy?: string;
                        path: string;
                        expected: string;
                        got: string;
                    }[];
                }[];
            };
            warnings?: {
                line?: number;
                policy?: string;
                path: string;
                expected: string;
                got: string;
            }[];
            /** @enum {boolean} */
            dryRun?: true;
            changes?: {
                /** @enum {string} */
                kind: "app" | "policy" | "template" | "networks" | "ban";
                app: string;
                name: string;
                /** @enum {string} */
                change: "created" | "updated" | "deleted";
                patch: {
                    op: string;
                    path: string;
                    value?: unknown;
                    from?: string;
                }[];
                text: string;
            }[];
            gateways?: string[];
        };
        Validity: {
            valid: boolean;
            errors?: {
                line?: number;
                policy?: string;
                path: string;
                expected: string;
                got: string;
            }[];
            warnings?: {
                line?: number;
                policy?: string;
                path: string;
                expected: string;
                got: string;
            }[];
        };
        PolicyPage: {
            policies: {
                name: string;
                etag: string;
                revision: number;
                /** Format: date-time */
                updatedAt: string;
                owner?: string;
                document: components["schemas"]["Policy"];
            }[];
            next?: string;
        };
        AppPage: {
            apps: components["schemas"]["App"][];
            next?: string;
        };
        RevisionPage: {
            revisions: {
                n: number;
                /** Format: date-time */
                at: string;
                who: string;
                from?: string;
                action: string;
                app?: string;
                policy?: string;
                subject?: string;
                summary: string;
            }[];
            next?: number;
        };
        RevisionDetails: {
            n: number;
            /** Format: date-time */
            at: string;
            who: string;
            from?: string;
            action: string;
            app?: string;
            policy?: string;
            subject?: string;
            summary: string;
            before: unknown;
            after: unknown;
        };
        Diff: {
            from: number;
            to: number;
            changes: {
                /** @enum {string} */
                kind: "app" | "policy" | "template" | "networks" | "ban";
                app: string;
                name: string;
                /** @enum {string} */
                change: "created" | "updated" | "deleted";
                patch: {
                    op: string;
                    path: string;
                    value?: unknown;
                    from?: string;
                }[];
                text: string;
            }[];
            moreBans?: number;
        };
        RollBack: {
            revision?: number;
            applied?: {
                gateways: number;
                acked: number;
                refused: number;
                refusals?: {
                    gateway: string;
                    revision: number;
                    errors: {
                        line?: number;
                        policy?: string;
                        path: string;
                        expected: string;
                        got: string;
                    }[];
                }[];
            };
            /** @enum {boolean} */
            dryRun?: true;
            changes: {
                /** @enum {string} */
                kind: "app" | "policy" | "template" | "networks" | "ban";
                app: string;
                name: string;
                /** @enum {string} */
                change: "created" | "updated" | "deleted";
                patch: {
                    op: string;
                    path: string;
                    value?: unknown;
                    from?: string;
                }[];
                text: string;
            }[];
            gateways?: string[];
            moreChanges?: number;
        };
        AuditPage: {
            entries: {
                id: string;
                /** Format: date-time */
                at: string;
                who: string;
                from?: string;
                action: string;
                app?: string;
                policy?: string;
                subject?: string;
                revision?: number;
                before?: unknown;
                after?: unknown;
            }[];
            next?: string;
        };
        TopKeys: {
            app: string;
            policy: string;
            /** @enum {string} */
            window: "minute" | "hour";
            /** Format: date-time */
            since: string;
            complete: boolean;
            admitted: {
                key?: string[];
                hash?: string;
                atLeast: number;
                atMost: number;
            }[];
            refused: {
                key?: string[];
                hash?: string;
                atLeast: number;
                atMost: number;
            }[];
            othersAtMost: {
                admitted: number;
                refused: number;
            };
        };
        Traffic: {
            app: string;
            policy?: string;
            /** @enum {string} */
            step: "second" | "minute" | "hour";
            /** Format: date-time */
            since: string;
            /** Format: date-time */
            until: string;
            complete: boolean;
            points: {
                /** Format: date-time */
                at: string;
                admitted: number;
                refused: number;
                shadowRefused: number;
                delayed: number;
                degraded: number;
            }[];
        };
        BusyPolicies: {
            app: string;
            /** Format: date-time */
            since: string;
            /** Format: date-time */
            until: string;
            policies: {
                policy: string;
                admitted: number;
                refused: number;
                shadowRefused: number;
                delayed: number;
                degraded: number;
                refusedByMinute: number[];
            }[];
        };
        BusyApps: {
            /** Format: date-time */
            since: string;
            /** Format: date-time */
            until: string;
            apps: {
                app: string;
                admitted: number;
                refused: number;
                shadowRefused: number;
                delayed: number;
                degraded: number;
                refusedByMinute: number[];
            }[];
        };
        Member: {
            name: string;
            admin: boolean;
            disabled: boolean;
            /** Format: date-time */
            disabledAt?: string;
            /** Format: date-time */
            createdAt: string;
            createdBy: string;
            roles: {
                [key: string]: "owner" | "editor" | "viewer";
            };
            signsInByOpenId: boolean;
            groups?: string[];
            rolesByGroups?: {
                [key: string]: "owner" | "editor" | "viewer";
            };
            adminByGroups?: boolean;
        };
        MemberChange: {
            name: string;
            admin: boolean;
            disabled: boolean;
            /** Format: date-time */
            disabledAt?: string;
            /** Format: date-time */
            createdAt: string;
            createdBy: string;
            roles: {
                [key: string]: "owner" | "editor" | "viewer";
            };
            signsInByOpenId: boolean;
            groups?: string[];
            rolesByGroups?: {
                [key: string]: "owner" | "editor" | "viewer";
            };
            adminByGroups?: boolean;
            /** @enum {boolean} */
            dryRun?: true;
        };
        MemberPage: {
            members: components["schemas"]["Member"][];
            next?: string;
        };
        Session: {
            who: string;
            member?: string;
            admin: boolean;
            roles: {
                [key: string]: "owner" | "editor" | "viewer" | "caller";
            };
            /** @enum {string} */
            signedInBy?: "token" | "openid";
            /** Format: date-time */
            startedAt?: string;
            /** Format: date-time */
            endsAt?: string;
            /** Format: date-time */
            endsUnusedAt?: string;
            csrfToken?: string;
        };
        Readiness: {
            /** @enum {string} */
            status: "ok";
            degraded: string[];
            /** @enum {string} */
            storage: "ok" | "full" | "unreachable" | "unwritable";
            /** @enum {string} */
            redis: "not-configured" | "connecting" | "ok" | "failing";
            gateways: number;
            alarms: {
                /** @enum {string} */
                alarm: "sluice-errors" | "snapshot-refused" | "snapshot-late" | "revision-unknown" | "consumers-full" | "redis-missing" | "another-redis" | "redis-overloaded" | "another-database";
                gateways: number;
            }[];
        };
        Nothing: {
            /** @enum {boolean} */
            dryRun?: true;
        };
        Fleet: {
            revision: number;
            consumersPosition: number;
            connected: number;
            redis: {
                /** @enum {string} */
                state: "not-configured" | "connecting" | "ok" | "failing";
                /** Format: date-time */
                since?: string;
                error?: string;
                id?: string;
            };
            gateways: {
                id: string;
                connected: boolean;
                /** Format: date-time */
                connectedAt: string;
                /** Format: date-time */
                disconnectedAt?: string;
                version: string;
                workers: number;
                protocol: number;
                revision: number;
                lag: number;
                alarm: ("sluice-errors" | "snapshot-refused" | "snapshot-late" | "revision-unknown" | "consumers-full" | "redis-missing" | "another-redis" | "redis-overloaded" | "another-database") | null;
                refused: {
                    revision: number;
                    /** Format: date-time */
                    at: string;
                    errors: {
                        line?: number;
                        policy?: string;
                        path: string;
                        expected: string;
                        got: string;
                    }[];
                } | null;
                counters: {
                    [key: string]: number;
                };
                errors: {
                    [key: string]: number;
                } | null;
                warnings: string[];
                redis: {
                    /** @enum {string} */
                    state: "ok" | "failing" | "unused";
                    /** Format: date-time */
                    since: string;
                    id?: string;
                    strayWorkers: number;
                    overloadedWorkers: number;
                } | null;
                consumers: {
                    position: number;
                    lag: number;
                    count: number;
                    unstored: number;
                } | null;
            }[];
            next?: string;
        };
        Counter: {
            app: string;
            policy: string;
            /** @enum {string} */
            scope: "node" | "cluster";
            key: string[];
            limits?: {
                name: string;
                limit: number;
                used: number;
                remaining: number;
                resetAfter: number | null;
            }[];
            gateways: {
                id: string;
                /** @enum {string} */
                state: "done" | "unknown" | "silent";
                limits?: {
                    name: string;
                    limit: number;
                    used: number;
                    remaining: number;
                    resetAfter: number | null;
                }[];
            }[];
        };
        Token: {
            id: string;
            name: string;
            app?: string;
            member?: string;
            /** @enum {string} */
            role: "owner" | "editor" | "viewer" | "caller" | "admin" | "gateway" | "member";
            /** Format: date-time */
            expiresAt?: string;
            lastFour: string;
            /** Format: date-time */
            lastUsedAt?: string;
            /** Format: date-time */
            createdAt: string;
            expired: boolean;
        };
        NewToken: {
            id: string;
            name: string;
            app?: string;
            member?: string;
            /** @enum {string} */
            role: "owner" | "editor" | "viewer" | "caller" | "admin" | "gateway" | "member";
            /** Format: date-time */
            expiresAt?: string;
            token?: string;
            revision?: number;
            applied?: {
                gateways: number;
                acked: number;
                refused: number;
                refusals?: {
                    gateway: string;
                    revision: number;
                    errors: {
                        line?: number;
                        policy?: string;
                        path: string;
                        expected: string;
                        got: string;
                    }[];
                }[];
            };
            /** @enum {boolean} */
            dryRun?: true;
            changes?: {
                /** @enum {string} */
                kind: "app" | "policy" | "template" | "networks" | "ban";
                app: string;
                name: string;
                /** @enum {string} */
                change: "created" | "updated" | "deleted";
                patch: {
                    op: string;
                    path: string;
                    value?: unknown;
                    from?: string;
                }[];
                text: string;
            }[];
            gateways?: string[];
        };
        TokenPage: {
            tokens: components["schemas"]["Token"][];
            next?: string;
        };
        TokenChange: {
            revision?: number;
            applied?: {
                gateways: number;
                acked: number;
                refused: number;
                refusals?: {
                    gateway: string;
                    revision: number;
                    errors: {
                        line?: number;
                        policy?: string;
                        path: string;
                        expected: string;
                        got: string;
                    }[];
                }[];
            };
            /** @enum {boolean} */
            dryRun?: true;
            changes?: {
                /** @enum {string} */
                kind: "app" | "policy" | "template" | "networks" | "ban";
                app: string;
                name: string;
                /** @enum {string} */
                change: "created" | "updated" | "deleted";
                patch: {
                    op: string;
                    path: string;
                    value?: unknown;
                    from?: string;
                }[];
                text: string;
            }[];
            gateways?: string[];
        };
        Ban: {
            id: string;
            app: string;
            cidr?: string;
            policy?: string;
            key?: string[];
            keyPattern?: string[];
            /** Format: date-time */
            until: string;
            reason?: string;
            /** Format: date-time */
            createdAt: string;
            createdBy: string;
            revision: number;
        };
        NewBan: {
            id: string;
            app: string;
            cidr?: string;
            policy?: string;
            key?: string[];
            keyPattern?: string[];
            /** Format: date-time */
            until: string;
            reason?: string;
            /** Format: date-time */
            createdAt: string;
            createdBy: string;
            revision: number;
            applied?: {
                gateways: number;
                acked: number;
                refused: number;
                refusals?: {
                    gateway: string;
                    revision: number;
                    errors: {
                        line?: number;
                        policy?: string;
                        path: string;
                        expected: string;
                        got: string;
                    }[];
                }[];
            };
            /** @enum {boolean} */
            dryRun?: true;
            changes?: {
                /** @enum {string} */
                kind: "app" | "policy" | "template" | "networks" | "ban";
                app: string;
                name: string;
                /** @enum {string} */
                change: "created" | "updated" | "deleted";
                patch: {
                    op: string;
                    path: string;
                    value?: unknown;
                    from?: string;
                }[];
                text: string;
            }[];
            gateways?: string[];
        };
        BanPage: {
            bans: components["schemas"]["Ban"][];
            next?: string;
        };
        Consumer: {
            id: string;
            plan: string;
            overrides?: Record<string, never>;
            /** Format: date-time */
            changedAt: string;
            etag: string;
        };
        ConsumerChange: {
            id?: string;
            plan?: string;
            overrides?: Record<string, never>;
            /** Format: date-time */
            changedAt?: string;
            position: number;
            applied?: {
                gateways: number;
                acked: number;
            };
            /** @enum {boolean} */
            dryRun?: true;
            warnings?: {
                line?: number;
                policy?: string;
                path: string;
                expected: string;
                got: string;
            }[];
        };
        ConsumersChange: {
            done: number;
            of: number;
            created: number;
            changed: number;
            unchanged: number;
            deleted: number;
            position: number;
            applied?: {
                gateways: number;
                acked: number;
            };
            warnings?: {
                line?: number;
                policy?: string;
                path: string;
                expected: string;
                got: string;
            }[];
        };
        ConsumerPage: {
            count: number;
            consumers: components["schemas"]["Consumer"][];
            idsHidden?: boolean;
            next?: string;
        };
        Template: {
            /** @default 1 */
            cost: number | {
                from: string;
                /** @default 1 */
                default: number;
                max?: number;
            };
            onLimit?: {
                /**
                 * @default reject
                 * @enum {string}
                 */
                action: "reject" | "delay" | "degrade" | "tag";
                /** @default 429 */
                status: number;
                body?: string;
                /** @default [] */
                headers: string[];
                /**
                 * @example 500ms
                 * @example 30s
                 * @example 1d
                 */
                maxDelay?: string;
                maxWaiting?: number;
                uri?: string;
                location?: string;
                response?: {
                    /** @default 200 */
                    status: number;
                    /** @default  */
                    body: string;
                    /** @default [] */
                    headers: string[];
                };
                header?: string;
            };
        };
        TemplatePage: {
            templates: {
                name: string;
                etag: string;
                revision: number;
                /** Format: date-time */
                updatedAt: string;
                document: components["schemas"]["Template"];
            }[];
            next?: string;
        };
        NetworkList: {
            name: string;
            etag: string;
            revision: number;
            /** Format: date-time */
            updatedAt: string;
            count: number;
            bytes: number;
            networks: string[];
        };
        NetworkListPage: {
            lists: {
                name: string;
                etag: string;
                revision: number;
                /** Format: date-time */
                updatedAt: string;
                count: number;
                bytes: number;
            }[];
            next?: string;
        };
        SuppliedTemplate: {
            name: string;
            /** @enum {string} */
            kind: "action" | "policy";
            title: string;
            description: string;
            translations: {
                [key: string]: {
                    title: string;
                    description: string;
                };
            };
            document: {
                [key: string]: unknown;
            };
        };
        Library: {
            templates: components["schemas"]["SuppliedTemplate"][];
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export type operations = Record<string, never>;
